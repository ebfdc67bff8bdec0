// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/machine.h"
#include "src/engine/plan/memory_plan.h"
#include "src/step/collective_plan.h"

#include <string>
#include <vector>

/// The time of a training step on any number of ranks of a machine that is described, stage by
/// stage, without a rank of it at hand: docs/user/parallel.md says what such predictions are worth.
namespace norn {

/// Of one such collective: between nodes first or last, among ranks at the same place of their
/// node, and inside each node.
double collective_seconds(const CollectivePlan& collective, const MachineDescription& machine,
                          int ranks, int nodes);

/// Work of one kind on the rank that has the most of it, or a kind of collective.
struct StagePlan {
  std::string name;  ///< as the step names it where it is computed
  double flops = 0.0;
  double bytes = 0.0;  ///< of memory, or of whole arrays that ranks exchange
  double seconds = 0.0;
  bool communicates = false;
};

/// One op of a step, as src/step/compile.cpp lists them.
struct OpPlan {
  std::string name;
  std::string place;              ///< the layer or the weights that it is for, or nothing
  std::vector<StagePlan> stages;  ///< its part of the step's
  double seconds() const;
};

struct StepPlan {
  int ranks = 1;
  int nodes = 1;
  Index batch = 1;
  std::vector<StagePlan> stages;  ///< computation in the order of the step, then communication
  std::vector<OpPlan> ops;        ///< in the order of the step
  double compute_seconds = 0.0;
  double communication_seconds = 0.0;  ///< all of it
  double overlapped_seconds = 0.0;     ///< of it, beside computation
  double overlappable_seconds = 0.0;   ///< of computation, such as may wait for communication
  double seconds() const { return compute_seconds + communication_seconds - overlapped_seconds; }
  double examples_per_second() const { return double(batch) / seconds(); }
};

/// An array that a step uses.
struct TensorPlan {
  std::string name;  ///< "Hidden1 activations"
  Tensor tensor;
  int count = 1;  ///< such arrays: of lanes, of an update rule's state
  /// Numbers of the ops that use it, of StepPlan::ops.
  std::vector<int> read_by, written_by;
  /// The ops during which it holds what is needed; -1: none uses it.
  int first_op = -1, last_op = -1;
};
/// All arrays that rank 0 holds for a training step beside its batches.
std::vector<TensorPlan> plan_tensors(const Graph& graph, const PlanSettings& settings);
/// Bytes of working arrays that hold something that is needed, at the op where these are most.
std::int64_t most_live_bytes(const std::vector<TensorPlan>& tensors);

/// `settings.ranks` ranks on `nodes` nodes. Settings as from settings_on().
StepPlan plan_step(const Graph& graph, const PlanSettings& settings,
                   const MachineDescription& machine, int nodes);

/// Makes a plan that of a step whose computation was measured to take `compute_seconds`, shared out
/// as was planned.
void take_measured(StepPlan& plan, double compute_seconds);

/// A machine of this kind of CPU, by the rates of this network's kernels.
MachineDescription measured_machine(const WorkRates& rates, const UpdateRule& rule);

/// The settings with what a device of the machine, computing in that precision, decides. Throws
/// UsageError when it has no products in that precision; a CPU computes in fp32 whatever is asked.
PlanSettings settings_on(const MachineDescription& machine, Precision precision,
                         PlanSettings settings);

/// Bytes that a rank may take.
std::int64_t memory_of_rank(const MachineDescription& machine);

/// Nodes that so many ranks need.
int nodes_of(const MachineDescription& machine, int ranks);

/// Plans for 1, 2, 4 ... ranks up to `most`, and `most`.
struct ScalingPlan {
  StepPlan step;
  std::int64_t memory_bytes = 0;  ///< of the rank that needs the most
};
std::vector<ScalingPlan> plan_scaling(const Graph& graph, PlanSettings settings,
                                      const MachineDescription& machine, int most);

/// A doubling of ranks that makes a step shorter by less than this part does not pay.
constexpr double kLeastGain = 0.1;
/// The number of ranks after which the next doubling does not pay: the largest of `plans` when all
/// do.
int ranks_that_pay(const std::vector<ScalingPlan>& plans);

}  // namespace norn
