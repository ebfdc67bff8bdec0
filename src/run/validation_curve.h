// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/train/trainer.h"

#include <string>
#include <vector>

/// The validations of a run, one after the other, and what is said of them at its end.
namespace norn::run {

/// Whether a metric rose so much in the last quarter of a training that a longer one is worth
/// trying. `earlier`: the best value before that quarter; NaN: there was none.
bool still_rises(double earlier, double last);

class ValidationCurve {
 public:
  /// Valid as long as this is.
  TrainingObserver observer();
  /// The best model of the run, which of its models is kept, and whether it stopped too early.
  void tell(const Log& log, TrainingEnd end, const TrainingState& state,
            const TrainingDescriptor& training, bool is_of_recipe) const;

 private:
  bool still_rises_at(std::int64_t epochs) const;
  struct Point {
    std::int64_t epoch = 0;
    double value = 0.0;
  };
  std::vector<Point> points_;
};

}  // namespace norn::run
