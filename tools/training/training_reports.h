// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "tools/common/progress.h"

#include <optional>
#include <string>

/// What the trainer tells of a run while it goes on.
namespace norn::tools {

/// Passes what happens to rank 0's console: progress on stderr, a line an epoch on stdout.
/// `format`: "text" for people, "dsstne" for scripts that read DSSTNE's lines. `quiet`: no lines.
class TrainingReports {
 public:
  TrainingReports(Console& console, const run::RunBeginning& run, const std::string& format,
                  bool quiet);
  /// An epoch whose validation has not come is told.
  ~TrainingReports();
  TrainingReports(const TrainingReports&) = delete;
  TrainingReports& operator=(const TrainingReports&) = delete;
  void step(const StepReport& report);
  void epoch(const EpochReport& report);
  void validation(const ValidationReport& report);
  void checkpoint(const std::filesystem::path& path);

 private:
  void tell_epoch(const std::string& held_out);
  void print(const std::string& line);
  void print_no_more();
  Console& console_;
  run::RunBeginning run_;
  bool is_dsstne_;
  bool quiet_;
  std::optional<EpochReport> untold_;  ///< waits for its validation
  Progress progress_;
};

}  // namespace norn::tools
