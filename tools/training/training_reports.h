// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/trainer.h"
#include "tools/common/progress.h"

/// What the trainer tells of a run while it goes on.
namespace norn::tools {

/// Where a run stands when its reports begin.
struct ReportedRun {
  std::int64_t epochs = 0;
  Index examples = 0;        ///< of an epoch
  Index first_examples = 0;  ///< trained on before this run, when it was resumed
};

/// Passes what happens to rank 0's console: progress on stderr, DSSTNE's line an epoch on stdout.
class TrainingReports {
 public:
  TrainingReports(Console& console, const ReportedRun& run);
  /// For train(). Valid as long as this is.
  TrainingObserver observer();
  /// Since the beginning.
  double seconds() const { return progress_.seconds(); }

 private:
  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  void validation(const ValidationReport& report);
  void print_no_more();
  Console& console_;
  ReportedRun run_;
  Progress progress_;
};

/// Tells the first one, then the other.
TrainingObserver both(const TrainingObserver& first, const TrainingObserver& second);

}  // namespace norn::tools
