// SPDX-License-Identifier: Apache-2.0
// What is said of a run's validations.
#include "src/run/validation_curve.h"

#include "src/base/text.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace norn::run {
namespace {
constexpr double kRise = 0.005;        // of the value before the last quarter
constexpr double kLastQuarter = 0.75;  // of the epochs, where it begins
}  // namespace

bool still_rises(double earlier, double last) {
  return last > (1.0 + kRise) * earlier;  // never where there was none
}

TrainingObserver ValidationCurve::observer() {
  TrainingObserver observer;
  observer.on_validation = [this](const ValidationReport& report) {
    points_.push_back({report.epoch, report.value});
  };
  return observer;
}

bool ValidationCurve::still_rises_at(std::int64_t epochs) const {
  if (points_.empty() || points_.back().epoch != epochs) return false;
  double earlier = -std::numeric_limits<double>::infinity();
  for (const Point& point : points_)
    if (double(point.epoch) <= kLastQuarter * double(epochs))
      earlier = std::max(earlier, point.value);
  return earlier > 0.0 && still_rises(earlier, points_.back().value);
}

void ValidationCurve::tell(const Log& log, TrainingEnd end, const TrainingState& state,
                           const TrainingDescriptor& training, bool is_of_recipe) const {
  const SearchState& search = state.search;
  if (search.best_epoch == 0) return;
  const ValidationDescriptor& asked = training.validation;
  if (end == TrainingEnd::early_stopped)
    log.info(fmt::format("stopped early: {} without a better {}",
                         counted(search.ended_since_best, "validation"), state.watched));
  const bool kept = !asked.early_stop.empty() || !asked.keep_best.empty();
  log.info(fmt::format("best {} {:.6g} after epoch {}; the model is {}", state.watched, search.best,
                       search.best_epoch,
                       kept ? "of that epoch"
                       : search.best_epoch == state.epoch
                           ? "of that epoch, the last"
                           : "of the last epoch: `keep_best` would keep the best"));
  if (is_of_recipe && state.watched != "loss" && still_rises_at(training.epochs))
    log.info(fmt::format(
        "{} still rose at the end: more `epochs` or a higher `rate` may be better; `recipe` auto "
        "tries",
        state.watched));
}

}  // namespace norn::run
