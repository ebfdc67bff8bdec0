// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/memory_plan.h"
#include "norn/engine/step_probe.h"

#include <string>

/// The plan of a run as text.
namespace norn::tools {

/// Layers and memory.
std::string plan_text(const MemoryPlan& plan, const PlanSettings& settings,
                      std::int64_t available_bytes);
/// The time of a step by a CPU's rates, or by steps on a GPU.
std::string step_text(const PlanSettings& settings, const WorkPlan& work, const WorkRates& rates);
std::string step_text(const PlanSettings& settings, const WorkPlan& work, const StepTime& time);

}  // namespace norn::tools
