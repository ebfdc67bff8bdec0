// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/train/trainer.h"
#include "src/nn/json_value.h"

#include <string>

/// The events of a run's log as JSON objects: docs/user/run_folder.md,
/// configs/schema/log.schema.json.
namespace norn::run {

/// "2026-11-22T05:04:03.021Z": now.
std::string utc_time();

/// What a run is, when it begins.
struct RunFacts {
  std::string program;  ///< "trainer"
  std::string version;
  std::filesystem::path model;
  bool resumed = false;
  std::int64_t epoch = 0;  ///< epochs done before
  std::int64_t step = 0;   ///< steps done before
  std::int64_t epochs = 0;
  Index batch = 0;
  Index examples = 0;  ///< of an epoch
  Index weights = 0;
  int ranks = 1;
  std::string device;  ///< "cpu" or "cuda"
  std::string device_name;
  std::string precision;
  int threads = 0;  ///< of a rank, on the CPU; 0 on a GPU
  std::uint64_t seed = 0;
};
JsonValue start_event(const RunFacts& facts);

JsonValue epoch_event(const EpochReport& report);
JsonValue validation_event(const ValidationReport& report);
JsonValue checkpoint_event(std::int64_t epoch, std::int64_t step,
                           const std::filesystem::path& file);
/// `reason`: "completed", "early_stop", "stopped". `model` empty: none was written.
JsonValue end_event(const std::string& reason, std::int64_t epochs, double seconds,
                    const std::filesystem::path& model);
JsonValue error_event(const std::string& message, int exit_code);

/// Steps, thinned out: the first one, then at most one a second. Each stands for all since the one
/// before it in its epoch.
class StepEvents {
 public:
  explicit StepEvents(double every_seconds = 1.0) : every_(every_seconds) {}
  /// Before a run that goes on within an epoch: what of it was done before, and its costs' sum.
  void begin_within(std::int64_t epoch, Index examples, double cost_sum);
  /// Null when nothing is to be told yet. `now`: seconds on a clock that does not go back.
  JsonValue take(const StepReport& report, double now);

 private:
  double every_;
  double told_at_ = 0.0;
  bool has_told_ = false;
  std::int64_t epoch_ = -1;
  Index examples_ = 0;     // of the epoch, up to the last event
  double cost_sum_ = 0.0;  // over them
  double since_ = -1.0;    // when what follows began; -1: with the epoch, or with the run
};

}  // namespace norn::run
