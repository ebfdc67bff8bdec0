// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/step_plan.h"
#include "norn/run/train.h"

#include <memory>
#include <optional>
#include <vector>

/// What a run would take, before it is made.
namespace norn::run {

/// A run's memory on the device that it would compute on. Nothing large has been allocated.
struct RunPlan {
  std::shared_ptr<Communicator> ranks;
  std::unique_ptr<Runtime> runtime;
  std::unique_ptr<Context> context;  ///< to measure with
  Graph graph;
  PlanSettings settings;
  MemoryPlan memory;
  std::int64_t available_bytes = 0;

  bool fits() const { return memory.total_bytes() <= available_bytes; }
};

/// Plans train(options) on the ranks that there are; all call it together.
RunPlan plan(const TrainOptions& options);

/// A plan for a machine that is described: neither it nor its ranks need be at hand.
struct MachinePlan {
  Graph graph;
  MachineDescription machine;
  Precision precision = Precision::fp32;
  PlanSettings settings;  ///< as from settings_on()
  MemoryPlan memory;
  std::int64_t available_bytes = 0;  ///< of a rank
  StepPlan step;
  std::vector<ScalingPlan> scaling;  ///< from one rank on

  bool fits() const { return memory.total_bytes() <= available_bytes; }
};

/// `nodes` not given: as many as the ranks fill. Throws UsageError where that many ranks cannot
/// stand on so many nodes of the machine.
MachinePlan plan_on_machine(const TrainOptions& options, const MachineDescription& machine,
                            int ranks, std::optional<int> nodes);

/// Nodes for `ranks` ranks: those that were asked for, else those that the machine needs. Throws
/// UsageError where they cannot be.
int choose_nodes(std::optional<int> wanted, int ranks, const MachineDescription& machine);

}  // namespace norn::run
