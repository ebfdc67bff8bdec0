// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "tools/common/progress.h"

/// What the trainer tells of a run while it goes on.
namespace norn::tools {

/// Passes what happens to rank 0's console: progress on stderr, DSSTNE's line an epoch on stdout.
class TrainingReports {
 public:
  TrainingReports(Console& console, const run::RunBeginning& run);
  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  void validation(const ValidationReport& report);
  void checkpoint(const std::filesystem::path& path);

 private:
  void print_no_more();
  Console& console_;
  run::RunBeginning run_;
  Progress progress_;
};

}  // namespace norn::tools
