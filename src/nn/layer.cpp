// SPDX-License-Identifier: Apache-2.0
// One layer at work: forward and backward on its own units.
#include "norn/nn/layer.h"

#include <vector>

namespace norn {
namespace {

const Activation& pointwise_activation(const LayerDescriptor& layer) {
  return std::get<Activation>(layer.activation);
}

// SELU keeps its mean and variance under alpha dropout; every other activation has inverted
// dropout.
const Selu* as_selu(const LayerDescriptor& layer) {
  const auto* activation = std::get_if<Activation>(&layer.activation);
  return activation ? std::get_if<Selu>(activation) : nullptr;
}

void fill(Buffer<float>& buffer, float value) {
  const std::vector<float> host(std::size_t(buffer.size()), value);
  buffer.write(host.data(), buffer.size());
}

}  // namespace

UnitLayer::UnitLayer(const Settings& settings, const UpdateRule& rule, const Compute& compute)
    : settings_(settings) {
  Memory& memory = compute.memory;
  const Index units = settings.mine.count();
  const Index width = settings.partition.width();
  const int slots = settings.trainable ? slots_of(rule) : 0;
  bias = UnitParameters(units, slots, memory);
  fill(bias.value, descriptor().init.bias);
  if (descriptor().batch_normalization) {
    norm_scale = UnitParameters(units, slots, memory);
    fill(norm_scale.value, 1.0f);
    norm_bias = UnitParameters(units, slots, memory);
    running_mean = Buffer<float>::zeros(units, memory);
    running_variance = Buffer<float>(units, memory);
    fill(running_variance, 1.0f);
  }
  if (settings.trainable) {
    gradient_ = Buffer<float>(units, memory);
    gradient2_ = Buffer<float>(units, memory);
  }
  if (is_output()) return;
  out_ = Matrix<float>::zeros(settings.batch, width, memory);
  const bool rounds = compute.kernels.rounds_operands;
  if (rounds) rounded_out_ = Matrix<Bfloat16>(settings.batch, width, memory);
  if (!settings.trainable) return;
  if (descriptor().dropout > 0.0f) before_dropout_ = Matrix<float>(settings.batch, units, memory);
  if (descriptor().batch_normalization) {
    normalised_ = Matrix<float>(settings.batch, units, memory);
    inverse_deviation_ = Buffer<float>(units, memory);
  }
  delta_ = Matrix<float>(settings.batch, units, memory);
  if (rounds) rounded_delta_ = Matrix<Bfloat16>(settings.batch, units, memory);
  if (settings.terms > 0)
    delta_sum = DeltaSum(settings.batch, width, settings.terms, settings.delta_flags, memory);
}

LayerOutput UnitLayer::output(Index examples) {
  if (rounded_out_.empty()) return {false, whole(examples), {}, nullptr};
  return {false, {whole(examples), rounded_out_.first_rows(examples)}, {}, nullptr};
}

void UnitLayer::round_output(const Compute& compute, Index examples) {
  if (!rounded_out_.empty())
    compute.kernels.pointwise->round(whole(examples), rounded_out_.first_rows(examples));
}

DenseOperand UnitLayer::delta_operand(const Compute& compute, Index examples) {
  if (rounded_delta_.empty()) return delta(examples);
  const MatrixView<Bfloat16> rounded = rounded_delta_.first_rows(examples);
  compute.kernels.pointwise->round(delta(examples), rounded);
  return {delta(examples), rounded};
}

void UnitLayer::begin_forward(const Compute& compute, Index examples) {
  compute.kernels.pointwise->set_rows(bias.value.view(), own(examples));
}

void UnitLayer::finish_forward(const Compute& compute, Index examples, Pass pass,
                               const StepPosition& position) {
  const MatrixView<float> z = own(examples);
  if (descriptor().batch_normalization) {
    const BatchNormView norm{norm_scale.value.view(), norm_bias.value.view(), running_mean.view(),
                             running_variance.view()};
    if (pass == Pass::training)
      compute.kernels.normalization->batch_norm(norm, z, normalised_.first_rows(examples),
                                                inverse_deviation_.view());
    else
      compute.kernels.normalization->batch_norm_predict(norm, z);
  }
  if (is_softmax()) return;
  compute.kernels.pointwise->activate(pointwise_activation(descriptor()), z);
  if (pass == Pass::training && descriptor().dropout > 0.0f)
    apply_dropout(compute, examples, position);
}

void UnitLayer::softmax(const Compute& compute, Index examples) {
  compute.kernels.pointwise->softmax_rows(whole(examples));
}

Philox UnitLayer::dropout_stream(const StepPosition& position) const {
  return Philox::stream(position.seed, RandomPurpose::dropout, std::uint32_t(settings_.number));
}

void UnitLayer::apply_dropout(const Compute& compute, Index examples,
                              const StepPosition& position) {
  const MatrixView<float> y = own(examples);
  const MatrixView<float> kept = before_dropout_.first_rows(examples);
  compute.kernels.pointwise->copy(y, kept);
  const Index first_row = position.step * settings_.batch;
  const float p = descriptor().dropout;
  if (const Selu* selu = as_selu(descriptor()))
    compute.kernels.batch->alpha_dropout(p, -selu->lambda * selu->alpha, dropout_stream(position),
                                         first_row, mine().begin, kept, y);
  else
    compute.kernels.batch->dropout(p, dropout_stream(position), first_row, mine().begin, kept, y);
}

void UnitLayer::undo_dropout(const Compute& compute, Index examples, const StepPosition& position) {
  const Index first_row = position.step * settings_.batch;
  const float p = descriptor().dropout;
  if (const Selu* selu = as_selu(descriptor()))
    compute.kernels.batch->alpha_dropout_backward(p, -selu->lambda * selu->alpha,
                                                  dropout_stream(position), first_row, mine().begin,
                                                  delta(examples));
  else
    compute.kernels.batch->dropout_backward(p, dropout_stream(position), first_row, mine().begin,
                                            delta(examples));
}

MatrixView<const float> UnitLayer::activation_values(Index examples) {
  if (descriptor().dropout > 0.0f && !is_softmax()) return before_dropout_.first_rows(examples);
  return own(examples);
}

void UnitLayer::backward(const Compute& compute, Index examples, const StepPosition& position,
                         const WeightStep& step) {
  const MatrixView<float> d = delta(examples);
  if (!is_softmax()) {
    if (descriptor().dropout > 0.0f) undo_dropout(compute, examples, position);
    const MatrixView<const float> y = activation_values(examples);
    if (settings_.sparseness.beta > 0.0f)
      compute.kernels.normalization->sparseness_penalty(settings_.sparseness.p,
                                                        settings_.sparseness.beta, y, d);
    compute.kernels.pointwise->multiply_slope(pointwise_activation(descriptor()), y, d);
  }
  if (!descriptor().batch_normalization) return;
  compute.kernels.normalization->batch_norm_backward(
      norm_scale.value.view(), normalised_.first_rows(examples), inverse_deviation_.view(), d,
      gradient_.view(), gradient2_.view());
  norm_scale.update(compute, step, 0, gradient_.view());
  norm_bias.update(compute, step, 0, gradient2_.view());
}

void UnitLayer::update_bias(const Compute& compute, const WeightStep& step, Range units,
                            const DenseOperand& delta) {
  if (delta.values.data == nullptr)
    compute.kernels.pointwise->sum_columns(delta.rounded, step.scale, bias_gradient(units));
  else
    compute.kernels.pointwise->sum_columns(delta.values, step.scale, bias_gradient(units));
  update_bias(compute, step, units);
}

void UnitLayer::update_bias(const Compute& compute, const WeightStep& step, Range units) {
  bias.update(compute, step, units.begin - mine().begin, bias_gradient(units));
}

Index UnitLayer::parameter_bytes() const {
  return bias.bytes() + norm_scale.bytes() + norm_bias.bytes() + running_mean.bytes() +
         running_variance.bytes();
}

Index UnitLayer::state_bytes() const {
  Index bytes = 0;
  for (const UnitParameters* p : {&bias, &norm_scale, &norm_bias})
    bytes += p->slot[0].bytes() + p->slot[1].bytes();
  return bytes;
}

Index UnitLayer::working_bytes() const {
  return out_.bytes() + before_dropout_.bytes() + normalised_.bytes() + inverse_deviation_.bytes() +
         rounded_out_.bytes() + rounded_delta_.bytes() + delta_.bytes() + gradient_.bytes() +
         gradient2_.bytes() + delta_sum.bytes();
}

}  // namespace norn
