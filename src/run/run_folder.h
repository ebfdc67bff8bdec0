// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/train.h"
#include "src/parallel/communicator.h"
#include "src/run/appended_file.h"
#include "src/run/recorder.h"
#include "src/run/run_record.h"

#include <chrono>
#include <memory>
#include <optional>

/// What is recorded of a run in the folder of `run_dir`: docs/user/run_folder.md.
namespace norn::run {

inline constexpr const char* kRunLog = "log.jsonl";
inline constexpr const char* kRunRecord = "run.json";

/// The folder of one run. Rank 0 writes; on the others, and when no folder was asked for, the calls
/// do nothing. Once the run has begun nothing that goes wrong here ends it.
class RunFolder {
 public:
  RunFolder() = default;
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  enum class Earlier { refused, continued, replaced };
  /// Before hours are spent: the folder is there or can be made, and an earlier run's log is not in
  /// the way. Throws UsageError and DataError naming the folder. `recorder` must outlive it.
  void open(const std::filesystem::path& folder, Earlier earlier, int rank,
            const Recorder& recorder, Log log);
  /// The run begins, from that state. What an earlier run left is removed or gone on with.
  void begin(RunRecord record, const TrainingState& state);
  /// Records what train() reports. Valid as long as this is.
  TrainingObserver observer();
  /// What each op of a step took, for the record that end() writes.
  void set_ops(JsonValue ops) { record_.ops = std::move(ops); }
  /// The run has ended, as in end_event(). `checksum`: of the model's file, or empty.
  void end(const std::string& reason, std::int64_t epochs, const std::filesystem::path& model,
           const std::string& checksum);
  /// The run has failed. May be called on the one rank that tells why.
  void failed(const std::string& message, int exit_code);

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool writes() const { return log_ != nullptr; }
  void write(const JsonValue& event);
  void make_log();
  void begin_record(RunRecord record);
  void write_record();
  void warn_once(const std::string& trouble);

  std::filesystem::path folder_;
  const Recorder* recorder_ = nullptr;
  Log log_messages_;
  Earlier earlier_ = Earlier::refused;
  bool is_ours_ = false;  // the folder is this run's
  bool warned_ = false;   // of a disk that is full
  std::unique_ptr<AppendedFile> log_;
  EventSink sink_;  // or none
  Clock::time_point start_ = Clock::now();
  StepEvents steps_;
  RunRecord record_;
  JsonValue last_epoch_;  // events
  JsonValue last_evaluation_;
  JsonValue best_evaluation_;
  std::int64_t step_ = 0;
};

}  // namespace norn::run
