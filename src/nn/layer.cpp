// SPDX-License-Identifier: Apache-2.0
// One layer at work: forward and backward on its own units.
#include "src/nn/layer.h"

namespace norn {
namespace {

const Activation& pointwise_activation(const LayerDescriptor& layer) {
  return std::get<Activation>(layer.activation);
}

// Inverted dropout multiplies what it keeps by a positive factor, and the delta of what it drops is
// 0: slopes that follow the sign are those of the outputs after it.
bool slope_is_that_after_dropout(const Activation& activation) {
  return std::visit(
      [](const auto& f) {
        return f.slope_from == SlopeFrom::y && f.slope_follows_sign &&
               f.dropout == DropoutKind::inverted;
      },
      activation);
}

// What DeltaSum is told of a layer's sum.
SumShape sum_shape(const UnitLayer::Settings& settings) {
  SumShape shape{settings.batch, settings.partition.width() * settings.places,
                 settings.partial_sums, settings.reduces_delta};
  if (!settings.is_gathered) {
    shape.units = settings.mine.count();
    shape.first = settings.mine.begin;
  }
  return shape;
}

}  // namespace

bool is_flat_after_dropout(const Activation& activation) {
  return slope_is_that_after_dropout(activation) &&
         std::visit([](const auto& f) { return f.flat_at_zero; }, activation);
}

SparsenessPenalty sparseness_of(const NetworkDescriptor& network, const LayerDescriptor& layer) {
  if (!layer.sparse || layer.kind != LayerKind::hidden || !(network.sparseness.beta > 0.0f))
    return {};
  return layer.sparseness.value_or(network.sparseness);
}

BlockPartition partition_of(const LayerDescriptor& layer, Index batch, const BlockRule& rule) {
  return BlockPartition::make(layer.units(), batch,
                              layer.kind == LayerKind::hidden ? rule.of_hidden() : rule);
}

bool keeps_outputs_before_dropout(const LayerDescriptor& layer,
                                  const SparsenessPenalty& sparseness) {
  const auto* f = std::get_if<Activation>(&layer.activation);
  if (!f || !(layer.dropout > 0.0f)) return false;
  if (sparseness.beta > 0.0f) return true;
  return slope_from(*f) == SlopeFrom::y && !slope_is_that_after_dropout(*f);
}

bool keeps_pre_activations(const LayerDescriptor& layer) {
  const auto* f = std::get_if<Activation>(&layer.activation);
  return f && slope_from(*f) == SlopeFrom::z;
}

UnitLayer::UnitLayer(const Settings& settings, int slots, const DeviceTraits& device)
    : settings_(settings) {
  using enum Purpose;
  const LayerDescriptor& layer = descriptor();
  const Index units = mine().count();
  const Index width = partition().width();
  const Index batch = settings.by_example ? settings.rows * settings.places : settings.batch;
  const Layout of_rows = settings.by_example ? Layout::by_example : Layout::by_unit;
  const Layout of_units = settings.by_example ? Layout::whole : Layout::by_unit;
  const Range owned = settings.by_example ? settings.owned : Range{0, units};
  const bool has_bias = rules_of(layer.type).edges != EdgeKind::own;
  if (has_bias) bias = UnitParameters(units, slots, "bias", layer.init.bias, of_units, owned);
  if (layer.batch_normalization) {
    norm_scale = UnitParameters(units, slots, "scaleBN", 1.0f, of_units, owned);
    norm_bias = UnitParameters(units, slots, "biasBN", 0.0f, of_units, owned);
    running_mean = {"running mean", parameter, units, 1, of_units};
    running_mean.saved_as("runningMeanBN");
    running_variance = {"running variance", parameter, units, 1, of_units};
    running_variance.saved_as("runningVarianceBN", 1.0f);
  }
  if (settings.trainable && has_bias) gradient = {"gradients of biases", working, units};
  if (settings.trainable && layer.batch_normalization)
    gradient2 = {"gradients of scales", working, units};
  if (is_output()) return;
  if (!settings.rows_in_bf16)
    activations = {"activations", working, batch, width,
                   settings.by_example ? Layout::by_example : Layout::whole};
  if (settings.gathers_rows)
    gathered = {"activations of all examples", working, settings.batch, width * settings.places,
                Layout::whole};
  // Of layers by example layers by unit read what is gathered, the others the rows as they are.
  const bool copies = !settings.by_example || settings.gathers_rows;
  const Index copied = settings.by_example ? width * settings.places : width;
  if (device.precision.casts_operands() && copies)
    bf16_activations = {"activations, bf16", working, settings.batch, copied, Layout::whole};
  if (settings.gives_bf16_rows) bf16_rows = {"activations, bf16", working, batch, width, of_rows};
  if (!settings.trainable) return;
  if (device.precision.transposes_operands() && copies)
    transposed_activations = {"activations, transposed", working, copied,
                              round_up_to_eight(settings.batch), Layout::whole};
  if (keeps_outputs_before_dropout(layer, settings.sparseness))
    before_dropout = {"before dropout", working, batch, units, of_rows};
  if (keeps_pre_activations(layer))
    pre_activations = {"pre-activations", working, batch, units, of_rows};
  if (layer.batch_normalization) {
    normalised = {"normalised", working, batch, units, of_rows};
    inverse_deviation = {"normalised", working, units, 1, of_units};
  }
  if (!settings.delta_in_bf16)
    deltas = {"deltas", working, batch, settings.by_example ? units : round_up_to_eight(units),
              of_rows};
  if (device.precision.casts_operands() && !settings.by_example)
    bf16_deltas = {"deltas, bf16", working, batch, round_up_to_eight(units)};
  if (settings.gives_bf16_delta) bf16_deltas = {"deltas, bf16", working, batch, units, of_rows};
  if (settings.takes_delta_aside)
    unit_deltas = {"deltas", working, settings.rows, units * settings.places, Layout::by_example};
  if (settings.partial_sums > 0) delta_sum = DeltaSum(sum_shape(settings), device.is_host);
}

void UnitLayer::initialise(Memory& memory) {
  if (!settings_.by_example) activations.fill_zero();  // large, and every own row is computed
  if (delta_sum.allocated()) delta_sum.initialise(memory);
}

LayerOutput UnitLayer::output(Index examples) {
  DenseOperand dense(outputs(examples));
  if (!bf16_activations.empty()) dense.bf16 = bf16_activations.first_rows(examples);
  if (!transposed_activations.empty()) dense.transposed = transposed_output(examples);
  return {false, dense, {}, nullptr};
}

MatrixView<float> UnitLayer::transposed_output(Index examples) {
  return transposed_activations.view().columns(0, round_up_to_eight(examples));
}

void UnitLayer::round_output(const Compute& compute, Index examples) {
  if (!bf16_activations.empty() && !finishes_output())  // or finish_forward() has cast them
    compute.kernels.pointwise->cast_to_bf16(outputs(examples), bf16(examples));
}

void UnitLayer::transpose_output(const Compute& compute, Index examples) {
  if (!transposed_activations.empty() &&
      !finishes_output())  // or finish_forward() has transposed them
    compute.kernels.dense->transpose(outputs(examples), transposed_output(examples));
}

DenseOperand UnitLayer::delta_operand(const Compute& compute, Index examples) {
  if (bf16_deltas.empty()) return delta(examples);
  const MatrixView<Bfloat16> bf16 = bf16_delta(examples);
  if (!takes_all_at_once()) compute.kernels.pointwise->cast_to_bf16(delta(examples), bf16);
  return {delta(examples), bf16};
}

void UnitLayer::begin_forward(const Compute& compute, Index examples) {
  compute.kernels.pointwise->set_rows(bias.value.view(), own(examples));
}

void UnitLayer::begin_with_product(const Compute& compute, const Connection& connection,
                                   const LayerOutput& x, Index examples) {
  connection.forward_from_bias(compute, x, mine(), block(), bias.value.view(), own(examples));
}

void UnitLayer::finish_forward(const Compute& compute, Index examples, Pass pass,
                               const StepPosition& position) {
  const MatrixView<float> z = own(examples);
  if (descriptor().batch_normalization) {
    const BatchNormView norm = norm_view();
    if (pass == Pass::training)
      compute.kernels.normalization->batch_norm(norm, z, normalised.first_rows(examples),
                                                inverse_deviation.view());
    else
      compute.kernels.normalization->batch_norm_predict(norm, z);
  }
  activate(compute, examples, pass, position);
}

void UnitLayer::activate(const Compute& compute, Index examples, Pass pass,
                         const StepPosition& position) {
  if (is_softmax()) return;
  const MatrixView<float> z = own(examples);
  const Activation& f = pointwise_activation(descriptor());
  DropoutMask dropout;
  ActivationCopies kept;
  if (pass == Pass::training) {
    if (descriptor().dropout > 0.0f) dropout = dropout_mask(position);
    if (!before_dropout.empty()) kept.before_dropout = before_dropout.first_rows(examples);
    if (!pre_activations.empty()) kept.z = pre_activations.first_rows(examples);
  }
  MatrixView<Bfloat16> of_own;
  if (!bf16_activations.empty() && (finishes_output() || gives_bf16(pass)))
    of_own = bf16(examples).columns(mine().begin, mine().count());
  if (!bf16_rows.empty()) of_own = bf16_rows.first_rows(examples);
  MatrixView<float> transposed;
  if (!transposed_activations.empty() && finishes_output() && pass == Pass::training)
    transposed = transposed_output(examples).row_range(mine().begin, mine().count());
  kept.bf16 = of_own;
  kept.transposed = transposed;
  compute.kernels.pointwise->activate(f, dropout, z, kept);
}

void UnitLayer::softmax(const Compute& compute, Index examples) {
  compute.kernels.pointwise->softmax_rows(whole(examples));
}

DropoutMask UnitLayer::dropout_mask(const StepPosition& position) const {
  const Philox random =
      Philox::stream(position.seed, RandomPurpose::dropout, std::uint32_t(settings_.number));
  const Index first_row = position.step * settings_.batch + first_row_;
  const float p = descriptor().dropout;
  const auto of_activation = [&]<typename F>(const F& f) {
    if constexpr (F::dropout == DropoutKind::alpha)
      return DropoutMask::alpha(p, f.left_out(), random, first_row, mine().begin);
    else
      return DropoutMask::inverted(p, random, first_row, mine().begin);
  };
  DropoutMask mask = std::visit(of_activation, pointwise_activation(descriptor()));
  mask.places = settings_.places;
  return mask;
}

void UnitLayer::undo_dropout(const Compute& compute, Index examples, const StepPosition& position) {
  compute.kernels.batch->mask(dropout_mask(position).slope(), delta(examples), delta(examples));
}

MatrixView<const float> UnitLayer::activation_values(Index examples) {
  if (!before_dropout.empty()) return before_dropout.first_rows(examples);
  return own(examples);
}

MatrixView<const float> UnitLayer::slope_values(Index examples) {
  if (!pre_activations.empty()) return pre_activations.first_rows(examples);
  return activation_values(examples);
}

void UnitLayer::take_delta(const Compute& compute, Index examples, const StepPosition& position,
                           bool alone) {
  const MatrixView<float> d = delta(examples);
  if (!takes_slope_at_once()) {
    delta_sum.take(compute, mine().begin, d);
    if (alone) delta_sum.adapt(compute);
    return;
  }
  OutputSlope slope{pointwise_activation(descriptor()), {}, slope_values(examples)};
  if (descriptor().dropout > 0.0f) slope.dropout = dropout_mask(position).slope();
  // Where a factor of 0 stands already, only the other one remains to be undone.
  if (is_flat_after_dropout(slope.f)) slope.dropout.p = 0.0f;
  MatrixView<Bfloat16> bf16;
  if (takes_all_at_once() && !bf16_deltas.empty()) bf16 = bf16_delta(examples);
  delta_sum.take_delta(compute, mine().begin, slope, d, bf16, alone);
}

void UnitLayer::backward(const Compute& compute, Index examples, const StepPosition& position,
                         const WeightStep& step) {
  const MatrixView<float> d = delta(examples);
  if (!is_softmax() && !takes_slope_at_once()) {
    if (descriptor().dropout > 0.0f) undo_dropout(compute, examples, position);
    compute.kernels.normalization->sparseness_penalty(
        settings_.sparseness.p, settings_.sparseness.beta, activation_values(examples), d);
    compute.kernels.pointwise->multiply_slope(pointwise_activation(descriptor()),
                                              slope_values(examples), d);
  }
  if (!descriptor().batch_normalization) return;
  compute.kernels.normalization->batch_norm_backward(
      norm_scale.value.view(), normalised.first_rows(examples), inverse_deviation.view(), d,
      gradient.view(), gradient2.view());
  norm_scale.update(compute, step, 0, gradient.view());
  norm_bias.update(compute, step, 0, gradient2.view());
}

void UnitLayer::undo_activation(const Compute& compute, Index examples,
                                const StepPosition& position) {
  if (descriptor().dropout > 0.0f) undo_dropout(compute, examples, position);
  MatrixView<Bfloat16> bf16;
  if (settings_.gives_bf16_delta && !descriptor().batch_normalization)
    bf16 = bf16_deltas.first_rows(examples);
  compute.kernels.pointwise->multiply_slope(pointwise_activation(descriptor()),
                                            slope_values(examples), delta(examples), bf16);
}

bool UnitLayer::convolve_to_outputs(const Compute& compute, const Window& window,
                                    const DenseOperand& x, Index examples, Pass pass,
                                    const StepPosition& position) {
  DropoutMask dropout;
  if (pass == Pass::training && descriptor().dropout > 0.0f) dropout = dropout_mask(position);
  return compute.kernels.convolution->forward_to_outputs(
      window, x, connections[0].weights().floats(), bias.value.view(),
      pointwise_activation(descriptor()), dropout, rows(examples));
}

UnitLayer::DeltaThrough UnitLayer::delta_through(Index examples) {
  const DenseResult delta = delta_rows(examples);
  if (!rules_of(descriptor().type).has_activation)
    return {false, Linear{}, 1.0f, MatrixView<float>{nullptr, examples, 0, 0}, delta};
  const float kept = DropoutMask::inverted(descriptor().dropout, {}, 0, 0).a;
  return {true, pointwise_activation(descriptor()), kept, rows(examples), delta};
}

void UnitLayer::sum_bias_gradient(const Compute& compute, const WeightStep& step, Range units,
                                  const DenseOperand& delta) {
  if (delta.values.data == nullptr)
    compute.kernels.pointwise->sum_columns(delta.bf16, step.scale, bias_gradient(units));
  else
    compute.kernels.pointwise->sum_columns(delta.values, step.scale, bias_gradient(units));
}

}  // namespace norn
