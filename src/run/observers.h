// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/training_report.h"

#include <functional>

/// Two who want to know how a run goes.
namespace norn::run {

template <typename Report>
std::function<void(const Report&)> both_of(std::function<void(const Report&)> first,
                                           std::function<void(const Report&)> second) {
  if (!first) return second;
  if (!second) return first;
  return [first, second](const Report& report) {
    first(report);
    second(report);
  };
}

inline TrainingObserver both(const TrainingObserver& first, const TrainingObserver& second) {
  return {both_of(first.on_step, second.on_step), both_of(first.on_epoch, second.on_epoch),
          both_of(first.on_validation, second.on_validation),
          both_of(first.on_checkpoint, second.on_checkpoint),
          first.on_rate ? first.on_rate : second.on_rate};
}

}  // namespace norn::run
