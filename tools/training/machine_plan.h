// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/step_plan.h"

#include <string>
#include <vector>

/// The plan of a run on a machine that is described, as text.
namespace norn::tools {

struct MachinePlan {
  MachineDescription machine;
  Precision precision = Precision::fp32;
  PlanSettings settings;  ///< as from settings_on()
  MemoryPlan memory;
  std::int64_t available_bytes = 0;  ///< of a rank
  StepPlan step;
  std::vector<ScalingPlan> scaling;  ///< from one rank on

  bool fits() const { return memory.total_bytes() <= available_bytes; }
};

/// `settings`: the batch, the ranks, the data sets. Throws UsageError where that many ranks cannot
/// stand on so many nodes of the machine.
MachinePlan plan_on_machine(const Graph& graph, PlanSettings settings,
                            const MachineDescription& machine, Precision precision, int nodes,
                            DataOnGpu data_place);

/// Nodes for `ranks` ranks: those that were asked for, else those that the machine needs. Throws
/// UsageError where they cannot be.
int choose_nodes(std::optional<int> wanted, int ranks, const MachineDescription& machine);

/// Layers, memory, stages of a step, and steps on 1, 2, 4 ... ranks.
std::string machine_plan_text(const MachinePlan& plan);
/// The same for scripts; times in seconds.
std::string machine_plan_json(const MachinePlan& plan);
/// What ranks exchange in a step whose computation was measured.
std::string communication_text(const StepPlan& step, const std::string& machine);

}  // namespace norn::tools
