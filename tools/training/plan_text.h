// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/step_probe.h"
#include "src/run/plan_parts.h"

#include <string>

/// The plan of a run as text.
namespace norn::tools {

/// Layers and memory.
std::string plan_text(const MemoryPlan& plan, const PlanSettings& settings,
                      std::int64_t available_bytes);
/// The time of a step by a CPU's rates, or by steps on a GPU.
std::string step_text(const PlanSettings& settings, const WorkPlan& work, const WorkRates& rates);
std::string step_text(const PlanSettings& settings, const WorkPlan& work, const StepTime& time);

/// Layers, memory, stages of a step, and steps on 1, 2, 4 ... ranks of a machine.
std::string machine_plan_text(const run::MachinePlanParts& plan);
/// The same for scripts; times in seconds.
std::string machine_plan_json(const run::MachinePlanParts& plan);
/// What ranks exchange in a step whose computation was measured.
std::string communication_text(const StepPlan& step, const std::string& machine);

}  // namespace norn::tools
