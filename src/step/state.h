// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/step/context.h"
#include "src/step/device_batch.h"
#include "src/step/facts.h"
#include "src/step/input_layer.h"
#include "src/step/target_runs.h"
#include "src/step/tensors.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

/// What a network holds at work on this rank, and the step that is being made.
namespace norn::step {

/// The gradient that one connection gives to weights that it shares with others.
struct SharedGradient {
  Matrix<float> part;  ///< this connection's
  Matrix<float> sum;  ///< at the owner's edge: all connections', in the order in which their layers
                      ///< go backward
};

/// An output layer at work, streamed block by block.
struct OutputState {
  Buffer<float>
      kept_z;  ///< pre-activations of all own blocks, block after block; empty: recomputed
  Matrix<float> block_maximum;            ///< [own blocks x B], SoftMax
  Matrix<float> block_sum;                ///< [own blocks x B]
  Matrix<float> rank_maximum;             ///< [ranks x B], with several ranks
  Buffer<float> maximum;                  ///< [B]
  Buffer<std::int64_t> total;             ///< [B]
  Buffer<std::int64_t> coupling;          ///< [B]
  std::optional<TargetRuns> target_runs;  ///< where blocks may be judged in their product

  SoftMaxRows rows(Index examples) const {
    return {maximum.view().range(0, examples), total.view().range(0, examples),
            coupling.view().range(0, examples)};
  }
};

/// What joins a layer to sources whose weights are shared out by source units.
struct SourceSum {
  DeltaSum parts;       ///< [B x all units] of pre-activations, one term for each block of a source
  Matrix<float> z;      ///< [B x own units] their sum
  Matrix<float> delta;  ///< [B x all units], in training
  Matrix<Bfloat16> rounded_delta;  ///< [B x all units], where products read it
};

/// An update of weights that waits until ranks exchange deltas.
struct LateUpdate {
  int layer = 0;
  int connection = 0;
  DenseOperand delta;
  Range units;
};

/// Called with the outputs of each block of this rank, from several lanes at a time.
using BlockVisitor = std::function<void(Range units, MatrixView<const float> y, int lane)>;

/// What a step was asked for.
struct Request {
  const BoundBatch* batch = nullptr;
  Index examples = 0;
  Pass pass = Pass::training;
  StepPosition position;
  const BlockVisitor* visit = nullptr;  ///< of the outputs that a prediction finds
};

class State {
 public:
  /// `facts` must outlive it.
  State(const StepFacts& facts, const Context& context);

  const StepFacts& facts;
  Context context;
  const StepTensors tensors;
  UpdateSchedule schedule;
  // By layer.
  Numbered<std::unique_ptr<InputLayer>> inputs;
  Numbered<std::unique_ptr<UnitLayer>> units;
  Numbered<std::unique_ptr<OutputState>> outputs;
  Numbered<std::unique_ptr<SourceSum>> source_sums;
  Numbered<std::unique_ptr<DeviceBatch>> batches;  ///< of layers that are bound to a data set
  Numbered<BatchView> bound;                       ///< the batch of this step
  Numbered<Buffer<double>> weight_squares;
  Numbered<DenseOperand> deltas;  ///< of hidden layers, from their HiddenDelta on
  // By edge.
  Numbered<std::unique_ptr<Weights>> weights;
  Numbered<std::unique_ptr<SharedGradient>> shared;
  // Of all.
  std::vector<Scratch> scratch;  ///< by lane
  Buffer<FixedSum> row_squares;  ///< [lanes x B], with DeltaNorm
  Buffer<std::int64_t> prediction_flags;
  Buffer<float> maxima;     ///< of hidden layers with a delta, last layers first
  std::vector<int> summed;  ///< those layers
  std::array<Buffer<std::int64_t>, 2>
      outcomes;  ///< in turn: one is downloaded beside the next step
  std::size_t turn = 0;
  std::vector<LateUpdate> late;
  std::vector<Buffer<float>> visited;  ///< by lane: outputs that are shown beside their cost
  Request now;
  bool names_stages = true;  ///< OpTimes names ops instead

  Compute& compute() { return context.compute; }
  const Kernels& kernels() const { return context.compute.kernels; }
  Collectives& collectives() { return *context.collectives; }
  const NetworkDescriptor& network() const { return facts.graph().network; }
  void stage(const char* name) {
    if (names_stages) context.compute.kernels.queue->stage(name);
  }
  Buffer<std::int64_t>& outcome() { return outcomes[turn]; }
  /// Costs of an output layer's own blocks.
  double* costs(int layer) {
    return reinterpret_cast<double*>(outcome().data() + facts.first_cost(layer));
  }
  Index examples() const { return now.examples; }
  bool is_alone() const { return facts.ranks() == 1; }

  LayerOutput output_of(int layer, Index examples) const {
    return inputs[layer] ? inputs[layer]->output() : units[layer]->output(examples);
  }
  LayerOutput output_of(int layer) const { return output_of(layer, now.examples); }
  WeightStep weight_step() const {
    return {network().training.optimizer, schedule, now.position.step, 1.0f / float(now.examples)};
  }
  int edge_of(int layer, std::size_t connection) const { return facts.sources(layer)[connection]; }
  SharedGradient& shared_gradient(int layer, std::size_t connection) {
    return *shared[edge_of(layer, connection)];
  }
  /// Puts the batch where the kernels can read it, prepared for the first layers; predictions need
  /// no targets.
  void load(bool with_targets);

 private:
  void build_layer(int layer);
  void build_output(int layer);
  void build_weights();
  void build_shared();
  void build_lanes();
  Numbered<char> loaded_;  // whether this step has a batch
};

}  // namespace norn::step
