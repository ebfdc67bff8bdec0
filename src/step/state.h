// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/context.h"
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

/// The steps of a network at a rate before Decay, which rises in the first `warm_up` steps.
UpdateSchedule schedule_of(const NetworkDescriptor& network, float rate, std::int64_t warm_up);

class State : public StepTensors {
 public:
  /// `facts` must outlive it.
  State(const StepFacts& facts, const Context& context);

  const StepFacts& facts;
  Context context;
  UpdateSchedule schedule;
  // By layer.
  Numbered<std::unique_ptr<InputLayer>> inputs;
  Numbered<std::unique_ptr<DeviceBatch>> batches;  ///< of layers that are bound to a data set
  Numbered<BatchView> bound;                       ///< the batch of this step
  Numbered<DenseOperand> deltas;                   ///< of hidden layers, from their HiddenDelta on
  // Of all.
  std::vector<int> summed;  ///< layers of `maxima`
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
  Buffer<std::byte>& outcome_bytes() { return outcomes[turn]; }
  Outcome outcome() { return {facts.outcome(), outcome_bytes().data()}; }
  Index examples() const { return now.examples; }
  bool is_alone() const { return facts.ranks() == 1; }

  LayerOutput output_of(int layer, Index examples) const {
    return inputs[layer] ? inputs[layer]->output() : units[layer]->output(examples);
  }
  LayerOutput output_of(int layer) const { return output_of(layer, now.examples); }
  /// An update of an edge's weights, and of vectors of layers' units.
  WeightStep weight_step(int edge) const { return step_by(facts.rule(edge)); }
  WeightStep unit_step() const { return step_by(facts.unit_rule()); }
  /// Of gradients: they are means over the batch.
  float gradient_scale() const { return 1.0f / float(now.examples); }
  int edge_of(int layer, std::size_t connection) const { return facts.matrices(layer)[connection]; }
  SharedGradient& shared_gradient(int layer, std::size_t connection) {
    return *shared[edge_of(layer, connection)];
  }
  /// Puts the batch where the kernels can read it, prepared for the first layers; predictions need
  /// no targets.
  void load(bool with_targets);

 private:
  WeightStep step_by(const UpdateRule& rule) const {
    return {rule, schedule, now.position.step, gradient_scale()};
  }
  void begin_arrays();
  void connect(int layer);
  Numbered<char> loaded_;  // whether this step has a batch
};

}  // namespace norn::step
