// SPDX-License-Identifier: Apache-2.0
// Rates of epochs.
#include "src/engine/train/rate_schedule.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

constexpr double kPi = 3.14159265358979323846;

double step_factor(const RateSchedule& schedule, std::int64_t epoch) {
  double factor = 1.0;
  for (std::int64_t i = epoch / schedule.interval; i > 0 && factor > 0.0; --i)
    factor *= double(schedule.multiplier);
  return factor;
}

// From 1 after the warm-up towards the minimum after the last epoch.
double cosine_factor(const RateSchedule& schedule, std::int64_t epoch, std::int64_t epochs) {
  const double warm_up = double(schedule.warm_up);
  const double left = double(epochs) - warm_up;
  if (double(epoch) <= warm_up || left <= 0.0) return 1.0;
  const double part = std::min(1.0, (double(epoch) - warm_up) / left);
  const double minimum = double(schedule.minimum);
  return minimum + (1.0 - minimum) * 0.5 * (1.0 + std::cos(kPi * part));
}

}  // namespace

bool falls_to_the_end(const RateSchedule& schedule) {
  return schedule.kind == RateKind::cosine;
}

float rate_of_epoch(const TrainingDescriptor& training, std::int64_t epoch,
                    const PlateauState& plateau) {
  const RateSchedule& schedule = training.schedule;
  double factor = 1.0;
  if (schedule.kind == RateKind::step) factor = step_factor(schedule, epoch);
  if (schedule.kind == RateKind::cosine) factor = cosine_factor(schedule, epoch, training.epochs);
  if (schedule.kind == RateKind::plateau) factor = plateau.factor;
  return float(double(training.rate) * factor);
}

std::int64_t warm_up_steps(const RateSchedule& schedule, std::int64_t steps_of_epoch) {
  return std::llround(double(schedule.warm_up) * double(steps_of_epoch));
}

std::int64_t earliest_stop(const TrainingDescriptor& training) {
  const float usual = falls_to_the_end(training.schedule) ? 0.75f : 0.25f;
  const double share = double(training.validation.stop_from.value_or(usual));
  const double epochs =
      std::max(share * double(training.epochs), double(training.schedule.warm_up));
  return std::int64_t(std::ceil(epochs));
}

void update_plateau(const RateSchedule& schedule, bool is_better, PlateauState& plateau) {
  if (schedule.kind != RateKind::plateau) return;
  plateau.evaluated += 1;
  plateau.since_better = is_better ? 0 : plateau.since_better + 1;
  if (plateau.since_better < schedule.patience) return;
  const double lower = plateau.factor * double(schedule.multiplier);
  plateau.factor = std::max(lower, std::min(plateau.factor, double(schedule.minimum)));
  plateau.since_better = 0;
}

}  // namespace norn
