// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/parallel/communicator.h"
#include "tools/common/appended_file.h"
#include "tools/common/console.h"
#include "tools/common/run_events.h"

#include <chrono>
#include <memory>
#include <optional>

/// What is recorded of a run in the folder of --run-dir: docs/run_folder.md.
namespace norn::tools {

inline constexpr const char* kRunLog = "log.jsonl";

/// The folder of one run. Rank 0 writes; on the others, and when no folder was asked for, the calls
/// do nothing. Once the run has begun nothing that goes wrong here ends it.
class RunFolder {
 public:
  RunFolder() = default;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  enum class Earlier { refused, continued, replaced };
  /// Before hours are spent: the folder is there or can be made, and an earlier run's log is not in
  /// the way. Throws UsageError and DataError naming the folder. The console must outlive the run.
  void open(const std::filesystem::path& folder, Earlier earlier, Console& console);
  /// The run begins, from that state. What an earlier run left is removed or gone on with.
  void begin(const RunFacts& facts, const TrainingState& state);
  /// Records what train() reports. Valid as long as this is.
  TrainingObserver observer();
  /// The run has ended, as in end_event().
  void end(const std::string& reason, std::int64_t epochs, const std::filesystem::path& model);
  /// The run has failed. May be called on the one rank that tells why.
  void failed(const std::string& message, int exit_code);

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool writes() const { return log_ != nullptr; }
  void write(const JsonValue& event);
  void make_log();

  std::filesystem::path folder_;
  Console* console_ = nullptr;  // not null: this rank records the run
  Earlier earlier_ = Earlier::refused;
  bool is_ours_ = false;  // the folder is this run's
  std::unique_ptr<AppendedFile> log_;
  Clock::time_point start_ = Clock::now();
  StepEvents steps_;
  std::int64_t epoch_ = 0;  // of the last step, counted from 1
  std::int64_t step_ = 0;
};

}  // namespace norn::tools
