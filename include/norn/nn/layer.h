// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/delta_sum.h"
#include "norn/nn/graph.h"

#include <string>
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

/// A hidden layer or an output layer: bias, batch normalisation, activations and deltas of the
/// units of this rank.
class UnitLayer {
 public:
  struct Settings {
    const LayerDescriptor* descriptor = nullptr;
    int number = 0;  ///< position in the network: random streams are told apart by it
    BlockPartition partition;
    Range mine;  ///< units of this rank
    Index batch = 1;
    Index terms = 0;  ///< of the delta sum; 0: no delta is wanted
    bool trainable = true;
    SparsenessPenalty sparseness;         ///< beta 0: off
    std::int64_t* delta_flags = nullptr;  ///< of the delta sum: two words in the device's memory
  };
  UnitLayer(const Settings& settings, const UpdateRule& rule, const Compute& compute);

  const LayerDescriptor& descriptor() const { return *settings_.descriptor; }
  const Settings& settings() const { return settings_; }
  const BlockPartition& partition() const { return settings_.partition; }
  Range mine() const { return settings_.mine; }
  bool is_output() const { return descriptor().kind == LayerKind::output; }
  bool is_softmax() const { return std::holds_alternative<SoftMax>(descriptor().activation); }

  std::vector<Connection> connections;  ///< in the order of the descriptor's sources
  std::vector<int> source_layers;       ///< of the connections
  UnitParameters bias;
  UnitParameters norm_scale;  ///< batch normalisation, else empty
  UnitParameters norm_bias;
  Buffer<float> running_mean;
  Buffer<float> running_variance;
  DeltaSum delta_sum;  ///< hidden layers in training

  /// Hidden layers: activations [B x width] of all ranks' units once they are gathered.
  MatrixView<float> whole(Index examples) { return out_.first_rows(examples); }
  MatrixView<float> own(Index examples) {
    return whole(examples).columns(mine().begin, mine().count());
  }
  LayerOutput output(Index examples);
  /// Rounds whole() for products, where the device reads rounded operands; once it is complete.
  void round_output(const Compute& compute, Index examples);

  /// own() = bias.
  void begin_forward(const Compute& compute, Index examples);
  /// own() = dropout(f(norm(own()))), for pre-activations that are complete. SoftMax waits for
  /// softmax().
  void finish_forward(const Compute& compute, Index examples, Pass pass,
                      const StepPosition& position);
  /// A hidden SoftMax layer, when whole() holds all pre-activations.
  void softmax(const Compute& compute, Index examples);

  /// [B x own units] d cost / d activation, then d cost / d pre-activation.
  MatrixView<float> delta(Index examples) { return delta_.first_rows(examples); }
  /// delta() for products: rounded here where the device reads rounded operands.
  DenseOperand delta_operand(const Compute& compute, Index examples);
  /// delta(): from d cost / d activation to d cost / d pre-activation, and the gradients of batch
  /// normalisation.
  void backward(const Compute& compute, Index examples, const StepPosition& position,
                const WeightStep& step);
  /// Updates the biases of units with the column sums of their deltas.
  void update_bias(const Compute& compute, const WeightStep& step, Range units,
                   const DenseOperand& delta);
  /// The same with the sums, times step.scale, that are in bias_gradient(units).
  void update_bias(const Compute& compute, const WeightStep& step, Range units);
  VectorView<float> bias_gradient(Range units) {
    return gradient_.view().range(units.begin - mine().begin, units.count());
  }

  /// Bytes of parameters, of their state, and of everything else.
  Index parameter_bytes() const;
  Index state_bytes() const;
  Index working_bytes() const;

 private:
  Philox dropout_stream(const StepPosition& position) const;
  void apply_dropout(const Compute& compute, Index examples, const StepPosition& position);
  void undo_dropout(const Compute& compute, Index examples, const StepPosition& position);
  MatrixView<const float> activation_values(Index examples);

  Settings settings_;
  Matrix<float> out_;                // [batch x width], hidden layers
  Matrix<Bfloat16> rounded_out_;     // [batch x width], where products read it
  Matrix<Bfloat16> rounded_delta_;   // [batch x mine], where products read it
  Matrix<float> before_dropout_;     // [batch x mine], with dropout
  Matrix<float> normalised_;         // [batch x mine], with batch normalisation
  Buffer<float> inverse_deviation_;  // [mine]
  Matrix<float> delta_;              // [batch x mine], hidden layers in training
  Buffer<float> gradient_;           // [mine]
  Buffer<float> gradient2_;          // [mine]
};

}  // namespace norn
