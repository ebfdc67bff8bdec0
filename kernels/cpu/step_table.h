// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/update_rule.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

/// The settings of recent steps, worked out once: what a rule computes for itself costs more than
/// a step of a row.
namespace norn {

/// A rule and a schedule with the settings of steps [first, first + settings.size()) at hand.
struct StepTable {
  UpdateRule rule;
  UpdateSchedule schedule;
  std::int64_t first = 0;
  std::vector<UpdateStep> settings;

  std::int64_t end() const { return first + std::int64_t(settings.size()); }
  /// The settings of any step; those outside the table are worked out anew.
  UpdateStep at(std::int64_t step) const {
    return step >= first && step < end() ? settings[std::size_t(step - first)]
                                         : schedule.at(rule, step);
  }
};

/// Tables of the rules and schedules in use. Several lanes may ask at a time.
class StepTables {
 public:
  /// A table that holds `step` and the 16,384 steps before it (384 KiB).
  std::shared_ptr<const StepTable> up_to(const UpdateRule& rule, const UpdateSchedule& schedule,
                                         std::int64_t step);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const StepTable>> tables_;  // one a rule and schedule, latest last
};

}  // namespace norn
