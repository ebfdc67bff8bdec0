// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/plan.h"
#include "src/engine/plan/step_plan.h"

/// Plans in full, for those who print them.
namespace norn::run {

struct MachinePlanParts {
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

/// Nodes for `ranks` ranks: those that were asked for, else those that the machine needs. Throws
/// UsageError where they cannot be.
int choose_nodes(std::optional<int> wanted, int ranks, const MachineDescription& machine);

}  // namespace norn::run
