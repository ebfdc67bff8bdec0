// SPDX-License-Identifier: Apache-2.0
// Tables of update settings that move along with the steps.

#include "kernels/cpu/step_table.h"

#include <algorithm>

namespace norn {
namespace {

constexpr std::int64_t kBack = 16384;      // rows that lag further are rare
constexpr std::int64_t kTableSteps = 256;  // a table serves this many steps before the next is made
constexpr std::size_t kSchedules = 16;     // layers rarely have schedules of their own

}  // namespace

std::shared_ptr<const StepTable> StepTables::up_to(const UpdateRule& rule,
                                                   const UpdateSchedule& schedule,
                                                   std::int64_t step) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(tables_.begin(), tables_.end(), [&](const auto& table) {
    return table->rule == rule && table->schedule == schedule;
  });
  const std::int64_t first = std::max<std::int64_t>(0, step - kBack);
  if (found != tables_.end() && (*found)->first <= first && step < (*found)->end()) return *found;

  auto table = std::make_shared<StepTable>();
  table->rule = rule;
  table->schedule = schedule;
  table->first = first;
  const StepTable none{rule, schedule, 0, {}};
  const StepTable& known = found != tables_.end() ? **found : none;
  table->settings.reserve(std::size_t(step + kTableSteps - first));
  for (std::int64_t t = first; t < step + kTableSteps; ++t) table->settings.push_back(known.at(t));
  if (found != tables_.end())
    tables_.erase(found);
  else if (tables_.size() == kSchedules)
    tables_.erase(tables_.begin());
  tables_.push_back(table);
  return table;
}

}  // namespace norn
