// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/memory_plan.h"

#include <string>

/// The plan of a run as text.
namespace norn::tools {

std::string plan_text(const MemoryPlan& plan, const PlanSettings& settings, const WorkPlan& work,
                      const WorkRates& rates, std::int64_t available_bytes);

}  // namespace norn::tools
