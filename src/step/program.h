// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/begin.h"
#include "src/step/ops/blocks.h"
#include "src/step/ops/hidden_delta.h"
#include "src/step/ops/hidden_forward.h"
#include "src/step/ops/output.h"
#include "src/step/ops/rows.h"
#include "src/step/ops/softmax_rows.h"
#include "src/step/ops/source_edges.h"
#include "src/step/ops/update.h"

#include <deque>
#include <string>
#include <variant>
#include <vector>

/// A step as a value: what is done, in this order. Who runs it, counts its work or its collectives
/// walks the same list.
namespace norn::step {

using CommonOps =
    OpTypes<BeginStep, BeginForward, CatchUpRows, SumSources, HiddenForward, GatherActivations,
            HiddenSoftMax, CopyActivations, GatherRest, BeginOutputs, ReduceSoftMaxRows, DeltaNorms,
            OutputBlocks, SendBySource, FinishRows, AddSharedGradients, BeginReduce, LateUpdates,
            FinishReduce, HiddenDelta, HiddenBlocks, UpdateRows, BeginMaxima, UpdateBiases,
            UpdateShared, BoundWeights, FinishMaxima, EndStep, CostBlocks, OutputValues>;
// And those that only layers of one kind have.
template <typename... Ops>
std::variant<Ops...> all_of(OpTypes<Ops...>);
template <typename... Ops, typename... More, typename... Lists>
auto all_of(OpTypes<Ops...>, OpTypes<More...>, Lists... lists) {
  return all_of(OpTypes<Ops..., More...>(), lists...);
}
template <typename... Rooms>
auto with_ops_of(std::type_identity<std::variant<std::monostate, Rooms...>>) {
  return all_of(CommonOps(), typename Rooms::Ops()...);
}

using Op = decltype(with_ops_of(std::type_identity<LayerRoom>()));
using Program = std::vector<Op>;
struct OpList {
  Program list;
  void add(Op op) { list.push_back(std::move(op)); }
};

/// One update: forward, cost, backward.
Program compile_training(const StepFacts& facts);
/// From the inputs to the hidden layers' activations, and nothing learnt.
Program compile_activations(const StepFacts& facts);
/// Up to the outputs of one layer.
Program compile_outputs(const StepFacts& facts, int layer);
/// Whether the best units of a layer can be found without writing their scores: then scored_units()
/// are what they are searched from once this program was run, and score() makes scores of what was
/// found.
bool is_searched(const StepFacts& facts, int layer);
Program compile_search(const StepFacts& facts, int layer);
ScoredUnits scored_units(const State& state, int layer, Range units, Index examples);
void score(State& state, int layer, MatrixView<float> found);
/// The cost of all output layers. The outputs of layer `visited`, if that is one, are shown.
Program compile_cost(const StepFacts& facts, int visited);

// Passes over the step of one rank, in this order.
/// Some edges and layers are shared out otherwise than by destination: src/step/sharding.h.
void share_out(Program& program, const StepFacts& facts);
/// Output layers' product, cost and delta become one kernel where the device has one.
void fuse_outputs(Program& program, const StepFacts& facts);
/// Copies of activations that a device's products read become ops.
void copy_operands(Program& program, const StepFacts& facts);
/// Updates that nothing waits for go on while ranks exchange deltas.
void overlap_updates(Program& program, const StepFacts& facts);

void run(const Program& program, State& state);

/// "hidden forward", and the layer or the weights that it is for, or nothing.
const char* name_of(const Op& op);
std::string place_of(const Op& op, const StepFacts& facts);

/// What each op takes in steps that are run here, which a GPU then makes without graphs.
class OpTimes {
 public:
  void run(const Program& program, State& state);
  std::int64_t steps() const { return steps_; }
  /// Mean seconds of each op. Waits for the device; not between steps that are yet to be measured.
  const std::vector<double>& each(WorkQueue& queue);

 private:
  std::vector<double> seconds_;
  std::deque<std::string> labels_;  // which the queue keeps pointers to
  std::int64_t steps_ = 0;
  bool is_read_ = false;
};

/// An op's work and collectives, of rank 0.
struct OpCost {
  const char* name = "";
  std::string place;
  std::vector<Work> work;
  std::vector<CollectivePlan> traffic;
};
/// The arrays that each op uses.
std::vector<TensorUses> uses_of(const Program& program, const StepFacts& facts,
                                StepTensors& tensors);
std::vector<OpCost> costs_of(const Program& program, const StepFacts& facts);
std::vector<Work> work_of(const Program& program, const StepFacts& facts);
std::vector<CollectivePlan> traffic_of(const Program& program, const StepFacts& facts);

}  // namespace norn::step
