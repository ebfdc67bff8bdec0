// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/delta_sum.h"
#include "src/nn/graph.h"

#include <string>
#include <utility>
#include <vector>

/// One layer at work: what it holds and what it computes on its own units. Layers never
/// communicate.
namespace norn {

/// Everything that a step's random masks depend on.
struct StepPosition {
  std::int64_t step = 0;  ///< updates made before this one, over all epochs
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
};

/// Whether a layer computes for an update or for a prediction.
enum class Pass { training, prediction };

/// The sparseness penalty of a layer; beta 0: none.
SparsenessPenalty sparseness_of(const NetworkDescriptor& network, const LayerDescriptor& layer);
/// Whether a hidden layer in training keeps its outputs as they were before dropout: where the
/// slope cannot be told from those that were kept, or a penalty needs them all.
bool keeps_outputs_before_dropout(const LayerDescriptor& layer,
                                  const SparsenessPenalty& sparseness);
/// Whether a function's slope of what dropout left out, which is 0, is 0 too.
bool is_flat_after_dropout(const Activation& activation);
/// Whether it keeps its pre-activations: where the slope is written in them.
bool keeps_pre_activations(const LayerDescriptor& layer);

/// The examples for which the blocks of a network are cut: as many as a step has in training, and
/// always as many for predictions, so that the numbers that they give do not depend on the batch.
constexpr Index block_examples(Pass purpose, Index batch) {
  constexpr Index kOfPredictions = 1024;
  return purpose == Pass::prediction ? kOfPredictions : batch;
}

/// The blocks of a layer with units; `batch` as block_examples() says.
BlockPartition partition_of(const LayerDescriptor& layer, Index batch, const BlockRule& rule);
/// A hidden layer or an output layer: bias, batch normalisation, activations and deltas of the
/// units of this rank.
class UnitLayer {
 public:
  struct Settings {
    const LayerDescriptor* descriptor = nullptr;
    int number = 0;  ///< position in the network: random streams are told apart by it
    BlockPartition partition;
    Range mine;  ///< units of this rank
    /// Of a layer by example, which has all units: it has `rows` examples at most, keeps the state
    /// of the update rule for units `owned`, and gathers_rows where layers by unit read it.
    bool by_example = false;
    Range owned = {};
    Index rows = 0;
    Index places = 1;  ///< of a unit of `partition`, which then is a channel
    bool gathers_rows = false;
    bool takes_delta_aside = false;  ///< StepFacts::takes_delta_aside()
    bool gives_bf16_rows = false;    ///< StepFacts::gives_bf16_rows(), gives_bf16_delta()
    bool gives_bf16_delta = false;
    bool rows_in_bf16 = false;  ///< StepFacts::rows_in_bf16(), delta_in_bf16()
    bool delta_in_bf16 = false;
    Index batch = 1;
    Index partial_sums = 0;      ///< of the delta sum; 0: no delta is wanted
    bool reduces_delta = false;  ///< SumShape::is_reduced
    bool gives_floats = false;   ///< other ranks read its activations as floats
    bool is_gathered = true;     ///< ranks gather its activations and add up its delta
    bool trainable = true;
    SparsenessPenalty sparseness;  ///< beta 0: off
  };
  /// `slots`: arrays of update state of each vector of parameters.
  UnitLayer(const Settings& settings, int slots, const DeviceTraits& device);
  /// Those of model files in the order in which these have them.
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    bias.for_each_tensor(visit);
    all(norm_scale.value, norm_bias.value, running_mean, running_variance);
    norm_scale.for_each_slot(visit);
    norm_bias.for_each_slot(visit);
    all(gradient, gradient2, activations, bf16_activations, transposed_activations, deltas,
        bf16_rows, bf16_deltas, gathered, unit_deltas, before_dropout, pre_activations, normalised,
        inverse_deviation);
    delta_sum.for_each_tensor(visit);
  }
  /// Once its tensors stand in `memory`: what must not begin with whatever stood there.
  void initialise(Memory& memory);

  const LayerDescriptor& descriptor() const { return *settings_.descriptor; }
  const Settings& settings() const { return settings_; }
  const BlockPartition& partition() const { return settings_.partition; }
  Range mine() const { return settings_.mine; }
  /// The width of its blocks, as products want it: 0 where the layer is one block.
  Index block() const { return partition().blocks() > 1 ? partition().block_width() : 0; }
  bool is_output() const { return descriptor().kind == LayerKind::output; }
  bool is_softmax() const { return std::holds_alternative<SoftMax>(descriptor().activation); }

  std::vector<Connection>
      connections;                 ///< weight matrices, in the order of the descriptor's sources
  std::vector<int> source_layers;  ///< of the connections
  UnitParameters bias;
  UnitParameters norm_scale;  ///< batch normalisation, else empty
  UnitParameters norm_bias;
  HeldBuffer<float> running_mean;
  HeldBuffer<float> running_variance;
  DeltaSum delta_sum;  ///< hidden layers in training

  HeldMatrix<float> activations;          ///< [batch x width], hidden layers with floats
  HeldMatrix<Bfloat16> bf16_activations;  ///< [batch x width], where products read it
  HeldMatrix<Bfloat16> bf16_rows;         ///< [rows x units], of layers by example
  HeldMatrix<float>
      transposed_activations;           ///< [width x batch, rounded up], where gradients read it
  HeldMatrix<float> gathered;           ///< [batch x width] of all examples, of layers by example
  HeldMatrix<float> deltas;             ///< [batch x mine, rounded up], the same in training
  HeldMatrix<float> unit_deltas;        ///< [own examples x units], what layers by unit say
  HeldMatrix<Bfloat16> bf16_deltas;     ///< [batch x mine, rounded up], where products read it
  HeldMatrix<float> before_dropout;     ///< [batch x mine], where they are kept
  HeldMatrix<float> pre_activations;    ///< [batch x mine], where slopes are written in them
  HeldMatrix<float> normalised;         ///< [batch x mine], with batch normalisation
  HeldBuffer<float> inverse_deviation;  ///< [mine]
  HeldBuffer<float> gradient;           ///< [mine], of biases
  HeldBuffer<float> gradient2;          ///< [mine], with batch normalisation

  /// Hidden layers: activations [B x width], of all ranks' units once they are gathered. Those of a
  /// layer that is not gathered are as a rule this rank's alone.
  MatrixView<float> whole(Index examples) { return activations.first_rows(examples); }
  MatrixView<float> own(Index examples) {
    return whole(examples).columns(mine().begin, mine().count());
  }
  LayerOutput output(Index examples);
  /// The same as a bf16 copy for products, [B x width], where the device reads bf16 operands.
  MatrixView<Bfloat16> bf16(Index examples) { return bf16_activations.first_rows(examples); }
  /// Whether other ranks need no more than bf16() of this layer, of which finish_forward() has
  /// filled the own columns.
  bool gives_bf16(Pass pass) const {
    return !bf16_activations.empty() && pass == Pass::training && !is_softmax() &&
           !settings_.gives_floats && !settings_.by_example;
  }
  /// Casts the outputs to bf16 for products, where the device reads bf16 operands; once they are
  /// complete.
  void round_output(const Compute& compute, Index examples);
  /// Transposes the outputs for gradients, where the device reads that; once they are complete.
  void transpose_output(const Compute& compute, Index examples);

  // Of layers by example, `examples` are the rows that this rank has: places of its examples.
  /// Which example of the batch is the first of them.
  void begin_rows(Index first_example) { first_row_ = first_example; }
  /// activations and deltas of this many own examples, [examples x units] channels last.
  template <typename T>
  MatrixView<T> examples_of(HeldMatrix<T>& array, Index examples) const {
    const Index units = settings_.places * mine().count();
    return {array.view().data, examples, units, units};
  }
  /// The same with the bf16 copies that there are, or in bf16 alone.
  DenseResult rows(Index examples) {
    DenseResult rows(examples_of(activations, examples));
    if (!bf16_rows.empty()) rows.bf16 = examples_of(bf16_rows, examples);
    return rows;
  }
  DenseResult delta_rows(Index examples) {
    DenseResult rows(examples_of(deltas, examples));
    if (!bf16_deltas.empty()) rows.bf16 = examples_of(bf16_deltas, examples);
    return rows;
  }
  BatchNormView norm_view() {
    return {norm_scale.value.view(), norm_bias.value.view(), running_mean.view(),
            running_variance.view()};
  }
  /// Batch normalisation of own() by the running statistics.
  void normalise_by_running(const Compute& compute, Index examples) {
    compute.kernels.normalization->batch_norm_predict(norm_view(), own(examples));
  }

  /// own() = bias.
  void begin_forward(const Compute& compute, Index examples);
  /// own() = bias + product with x, for a connection that begins_with_bias() or whose x is sparse.
  void begin_with_product(const Compute& compute, const Connection& connection,
                          const LayerOutput& x, Index examples);
  /// own() = dropout(f(norm(own()))), for pre-activations that are complete. SoftMax waits for
  /// softmax().
  void finish_forward(const Compute& compute, Index examples, Pass pass,
                      const StepPosition& position);
  /// own() = dropout(f(own())).
  void activate(const Compute& compute, Index examples, Pass pass, const StepPosition& position);
  /// A hidden SoftMax layer, when whole() holds all pre-activations.
  void softmax(const Compute& compute, Index examples);

  /// [B x own units] d cost / d activation, then d cost / d pre-activation.
  MatrixView<float> delta(Index examples) {
    return deltas.first_rows(examples).columns(0, mine().count());
  }
  /// delta() from delta_sum: d cost / d activation, or where nothing stands between them d cost /
  /// d pre-activation at once. `alone`: there are no other ranks, whose maximum must be reduced
  /// with this one's before delta_sum adapts to it.
  void take_delta(const Compute& compute, Index examples, const StepPosition& position, bool alone);
  /// delta() for products: cast to bf16 where the device reads bf16 operands.
  DenseOperand delta_operand(const Compute& compute, Index examples);
  /// delta(): from what take_delta() made of it to d cost / d pre-activation, and the gradients of
  /// batch normalisation.
  void backward(const Compute& compute, Index examples, const StepPosition& position,
                const WeightStep& step);
  /// delta(): from d cost / d activation to that of what activate() began with.
  void undo_activation(const Compute& compute, Index examples, const StepPosition& position);
  /// Of layers that StepFacts::activates_alone(), or in bf16 alone: the outputs as a product leaves
  /// them that applies the function and dropout. Says whether the device has such products.
  bool convolve_to_outputs(const Compute& compute, const Window& window, const DenseOperand& x,
                           Index examples, Pass pass, const StepPosition& position);
  /// Of layers that StepFacts::gets_whole_delta(), or in bf16 alone: what makes it behind the
  /// function, if there is one.
  struct DeltaThrough {
    bool has_slope;
    Activation f;
    float kept;         ///< what dropout multiplied by
    DenseOperand x;     ///< [examples x units] channels last; without columns if there is none
    DenseResult delta;  ///< [examples x units]
  };
  DeltaThrough delta_through(Index examples);
  /// Says whether that has been made, and asks it, once a step.
  bool set_final_delta(bool made) { return delta_is_final_ = made; }
  bool take_final_delta() { return std::exchange(delta_is_final_, false); }
  /// The biases' gradient for these units: the column sums of their deltas.
  void sum_bias_gradient(const Compute& compute, const WeightStep& step, Range units,
                         const DenseOperand& delta);
  /// Where it goes: the sums times step.scale.
  VectorView<float> bias_gradient(Range units) {
    return gradient.view().range(units.begin - mine().begin, units.count());
  }
  /// What updates the biases once the gradient of all own units is there.
  VectorUpdate bias_update() { return bias.update_by(gradient.view()); }

 private:
  DropoutMask dropout_mask(const StepPosition& position) const;
  /// Whether outputs are final once this rank's units are: nothing is gathered.
  bool finishes_output() const {
    return !is_softmax() && !settings_.by_example &&
           (mine().count() == partition().width() || !settings_.is_gathered);
  }
  /// Of all examples, as layers by unit read them.
  MatrixView<float> outputs(Index examples) {
    return settings_.by_example ? gathered.first_rows(examples) : whole(examples);
  }
  MatrixView<float> transposed_output(Index examples);
  MatrixView<Bfloat16> bf16_delta(Index examples) {
    return bf16_deltas.first_rows(examples).columns(0, mine().count());
  }
  void undo_dropout(const Compute& compute, Index examples, const StepPosition& position);
  /// Outputs as they were before dropout, and what slopes are written in.
  MatrixView<const float> activation_values(Index examples);
  MatrixView<const float> slope_values(Index examples);
  /// Whether delta_sum gives the delta behind the activation, and whether it is final.
  bool takes_slope_at_once() const { return !is_softmax() && !(settings_.sparseness.beta > 0.0f); }
  bool takes_all_at_once() const {
    return takes_slope_at_once() && !descriptor().batch_normalization &&
           !(descriptor().delta_norm > 0.0f);
  }

  Settings settings_;
  Index first_row_ = 0;
  bool delta_is_final_ = false;
};

}  // namespace norn
