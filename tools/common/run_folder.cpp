// SPDX-License-Identifier: Apache-2.0
// The folder of a run: its log.
#include "tools/common/run_folder.h"

#include "norn/base/error.h"

#include <system_error>

#include <fmt/format.h>

namespace norn::tools {
namespace {

namespace fs = std::filesystem;

}  // namespace

void RunFolder::open(const fs::path& folder, Earlier earlier, Console& console) {
  folder_ = folder;
  if (folder.empty() || console.rank() != 0) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw DataError(fmt::format("--run-dir {}: the folder cannot be made: {}; give another one",
                                folder.string(),
                                error ? error.message() : "a file of that name exists"));
  if (earlier == Earlier::refused && fs::exists(folder / kRunLog))
    throw UsageError(
        fmt::format("{}: the log of an earlier run exists already; give another --run-dir, --force "
                    "to replace it, or --resume to go on with its run",
                    (folder / kRunLog).string()));
  console_ = &console;
  earlier_ = earlier;
  is_ours_ = true;
  make_log();
}

void RunFolder::make_log() {
  remove_unfinished_line(folder_ / kRunLog);
  log_ = std::make_unique<AppendedFile>(
      folder_ / kRunLog, [this](const std::string& trouble) { console_->warning(trouble); });
}

void RunFolder::begin(const RunFacts& facts, const TrainingState& state) {
  is_ours_ = !folder_.empty();
  if (!writes()) return;
  if (earlier_ == Earlier::replaced) {
    log_.reset();
    std::error_code ignored;  // what cannot be removed is appended to
    fs::remove(folder_ / kRunLog, ignored);
    make_log();
  }
  start_ = Clock::now();
  epoch_ = state.epoch + (state.batch > 0 ? 1 : 0);
  step_ = state.step;
  if (state.batch > 0)
    steps_.begin_within(state.epoch, state.epoch_examples, state.epoch_cost.value());
  write(start_event(facts));
}

TrainingObserver RunFolder::observer() {
  TrainingObserver observer;
  if (!writes()) return observer;
  observer.on_step = [this](const StepReport& report) {
    epoch_ = report.epoch + 1;
    step_ = report.step;
    const JsonValue event = steps_.take(report, seconds());
    if (!event.is_null()) write(event);
  };
  observer.on_epoch = [this](const EpochReport& report) { write(epoch_event(report)); };
  observer.on_validation = [this](const ValidationReport& report) {
    write(validation_event(report));
  };
  observer.on_checkpoint = [this](const fs::path& path) {
    write(checkpoint_event(epoch_, step_, path));
  };
  return observer;
}

void RunFolder::end(const std::string& reason, std::int64_t epochs, const fs::path& model) {
  if (writes()) write(end_event(reason, epochs, seconds(), model));
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
}

}  // namespace norn::tools
