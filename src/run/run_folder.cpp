// SPDX-License-Identifier: Apache-2.0
// The folder of a run: its log.
#include "src/run/run_folder.h"

#include "norn/base/error.h"
#include "src/base/atomic_file.h"
#include "src/base/files.h"
#include "src/run/repeated_run.h"

#include <system_error>

#include <fmt/format.h>

namespace norn::run {
namespace {

namespace fs = std::filesystem;

// Files of TensorBoard that an earlier run left.
void remove_boards(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& entry : entries_of(folder, ignored))
    if (entry.filename().string().starts_with("events.out.tfevents.")) fs::remove(entry, ignored);
}

// An event's members without its kind and time.
JsonValue facts_of(const JsonValue& event) {
  if (event.is_null()) return {};
  JsonValue facts = JsonValue::object();
  for (const auto& [name, value] : event.members())
    if (name != "event" && name != "time") facts.set(name, value);
  return facts;
}

}  // namespace

void RunFolder::open(const fs::path& folder, Earlier earlier, int rank, const Recorder& recorder,
                     Log log) {
  folder_ = folder;
  if (folder.empty() || rank != 0) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !is_folder(folder))
    throw DataError(fmt::format("`run_dir` {}: the folder cannot be made: {}; give another one",
                                folder.string(),
                                error ? error.message() : "a file of that name exists"));
  if (earlier == Earlier::refused && path_exists(folder / kRunLog))
    throw UsageError(
        fmt::format("{}: the log of an earlier run exists already; give another `run_dir`, `force` "
                    "to replace it, or `resume` to go on with its run",
                    (folder / kRunLog).string()));
  recorder_ = &recorder;
  log_messages_ = std::move(log);
  earlier_ = earlier;
  is_ours_ = true;
  make_log();
}

void RunFolder::make_log() {
  remove_unfinished_line(folder_ / kRunLog);
  log_ = std::make_unique<AppendedFile>(folder_ / kRunLog,
                                        [this](const std::string& trouble) { warn_once(trouble); });
}

void RunFolder::begin(RunRecord record, const TrainingState& state) {
  is_ours_ = !folder_.empty();
  if (!writes()) return;
  if (earlier_ == Earlier::replaced) {
    log_.reset();
    std::error_code ignored;  // what cannot be removed is appended to
    fs::remove(folder_ / kRunLog, ignored);
    fs::remove(folder_ / kRunRecord, ignored);
    remove_boards(folder_);
    make_log();
    earlier_ = Earlier::continued;  // by the next part of this run
  }
  start_ = Clock::now();
  step_ = state.step;
  if (state.batch > 0)
    steps_.begin_within(state.epoch, state.epoch_examples, state.epoch_cost.value());
  sink_ = {};
  if (recorder_->open_sink) {
    try {
      sink_ = recorder_->open_sink(folder_, state.step,
                                   [this](const std::string& trouble) { warn_once(trouble); });
    } catch (const Error& error) {
      warn_once(error.what());
    }
  }
  write(start_event(record.facts));
  begin_record(std::move(record));
}

void RunFolder::begin_record(RunRecord record) {
  record_ = std::move(record);
  record_.started = utc_time();
  if (!record_.facts.model.empty()) record_.facts.model = fs::absolute(record_.facts.model);
  if (record_.origin.from == OriginRecord::From::checkpoint && path_exists(folder_ / kRunRecord)) {
    try {
      // A run that goes on with its own checkpoint began where it began before.
      const RunRecord earlier = read_run_record(folder_ / kRunRecord);
      if (is_continued(earlier, record_)) {
        record_.origin = earlier.origin;
        record_.started = earlier.started;
      }
    } catch (const Error& error) {
      log_messages_.warning(fmt::format("{}; it is written anew", error.what()));
    }
  }
  write_record();
}

void RunFolder::write_record() {
  try {
    write_file(folder_ / kRunRecord, run_record_json(record_));
  } catch (const Error& error) {
    warn_once(fmt::format("{}; the run goes on without it", error.what()));
  }
}

void RunFolder::warn_once(const std::string& trouble) {
  if (!warned_) log_messages_.warning(trouble);
  warned_ = true;
}

TrainingObserver RunFolder::observer() {
  TrainingObserver observer;
  if (!writes()) return observer;
  observer.on_step = [this](const StepReport& report) {
    step_ = report.step;
    const JsonValue event = steps_.take(report, seconds());
    if (!event.is_null()) write(event);
  };
  observer.on_epoch = [this](const EpochReport& report) {
    last_epoch_ = epoch_event(report);
    write(last_epoch_);
  };
  observer.on_validation = [this](const ValidationReport& report) {
    last_evaluation_ = validation_event(report);
    if (report.best) best_evaluation_ = last_evaluation_;
    write(last_evaluation_);
  };
  observer.on_checkpoint = [this](const CheckpointReport& report) {
    write(checkpoint_event(report.epoch, report.step, report.path));
  };
  return observer;
}

void RunFolder::end(const std::string& reason, std::int64_t epochs, const fs::path& model,
                    const std::string& checksum) {
  if (!writes()) return;
  write(end_event(reason, epochs, seconds(), model));
  JsonValue result = JsonValue::object();
  result.set("reason", reason).set("time", utc_time()).set("epochs", epochs);
  result.set("steps", step_).set("seconds", seconds()).set("last_epoch", facts_of(last_epoch_));
  result.set("last_evaluation", facts_of(last_evaluation_));
  result.set("best_evaluation", facts_of(best_evaluation_));
  if (!model.empty()) result.set("model", fs::absolute(model)).set("checksum", checksum);
  record_.result = result;
  write_record();
}

void RunFolder::failed(const std::string& message, int exit_code) {
  if (!is_ours_) return;
  try {
    // Also on another rank than 0, and when the console is gone.
    AppendedFile log(folder_ / kRunLog, [](const std::string&) {});
    log.append(error_event(message, exit_code).line() + "\n");
  } catch (const Error&) {  // the run has an error of its own to end with
  }
}

void RunFolder::write(const JsonValue& event) {
  log_->append(event.line() + "\n");
  if (sink_) sink_(event);
}

}  // namespace norn::run
