// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/engine/training_report.h"
#include "src/engine/data/data_binding.h"
#include "src/engine/model/model_file.h"
#include "src/engine/plan/memory_plan.h"

#include <atomic>
#include <string>
#include <vector>

/// Training: epochs of steps, reports, checkpoints, stopping and resuming.
namespace norn {

struct CheckpointPolicy {
  std::filesystem::path
      model;  ///< the model's own path; checkpoints stand beside it: model.nc -> model.epoch12.nc
  std::int64_t every_epochs = 0;    ///< 0: none
  double every_minutes = 0.0;       ///< 0: none
  int keep = 3;                     ///< the newest ones that stay; 0 keeps all
  std::filesystem::path name = {};  ///< they are named after this instead; empty: after the model
  bool as_time_allows = false;      ///< where they take at most a twentieth of it, too
  double least_seconds =
      10.0;  ///< between two of those, and between files of the best model so far

  const std::filesystem::path& base() const { return name.empty() ? model : name; }
};

/// Steps that are computed twice, so that hardware that computes wrongly is noticed.
struct Verification {
  std::int64_t every = 0;  ///< every so many steps; 0: none
  std::string device;      ///< what the rank computes on, for the message
};

/// What a run is validated with, as network.training.validation says; data null: it is not.
struct Validation {
  const ValidationData* data = nullptr;
  int output_layer = 0;  ///< whose targets are to be found
};

/// What validations of a run take, for its plan. Throws UsageError when a metric does not exist for
/// the data.
ValidationPlan plan_validation(const NetworkDescriptor& network, const Validation& validation);

/// Trains the network from `state` (all zero at the start) until network.training.epochs epochs are
/// complete, the search for the best model ends, or `stop` becomes true on any rank; then a
/// checkpoint is written that --resume goes on from, if the policy names a model. `state` is where
/// the run stands after it. When the best model is to be kept, network and state are the best
/// model's after it, unless it was stopped; while the run lasts it stands in main memory, where
/// that has room, and now and then, and with each checkpoint, beside the policy's model
/// (best_model). Validating does not change what is trained. Throws DeviceError when a step that
/// was verified gave two results, and UsageError when a metric does not exist for the data.
TrainingEnd train(Network& network, const DataBinding& data, const CheckpointPolicy& checkpoints,
                  const std::atomic<bool>& stop, const TrainingObserver& observer,
                  TrainingState& state, const Verification& verification = {},
                  const Validation& validation = {});

/// Where the best model of a run stands that has not ended; a run can be resumed from it, too.
std::filesystem::path best_model(const std::filesystem::path& model);

/// The newest whole checkpoint of a model, or the model itself when it is newer and can be resumed
/// from; nothing when there is none. Its checksums have been verified. What is passed over on the
/// way is logged as a warning.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& model,
                                                     const Log& log = {});

/// Whether there is a file that find_checkpoint considers, whole or not.
bool has_checkpoints(const std::filesystem::path& model);

/// Removes all checkpoints of a model and its best model, but not the model: before a run that
/// starts anew. Throws DataError naming the file that stays.
void remove_checkpoints(const std::filesystem::path& model);

/// Removes the temporary files of the model and its checkpoints that runs left which were killed
/// (see abandoned_temporaries), and returns their names.
std::vector<std::filesystem::path> remove_abandoned_files(const std::filesystem::path& model);

}  // namespace norn
