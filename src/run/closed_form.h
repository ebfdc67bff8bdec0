// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/run/preparation.h"

#include <memory>

/// Runs whose weights are computed at once, and not step by step.
namespace norn::run {

/// Throws UsageError for what such a run does not do, naming the setting: choosing an epoch, going
/// on. What has no effect is warned of.
void require_closed_form(const TrainOptions& options, const TrainingStart& start, const Log& log);

/// Whether the run is one of these.
inline bool has_closed_form(const TrainingStart& start) {
  return start.network.training.method != TrainingMethod::steps;
}

/// The network of the run whose data are open, its weights being zero. Throws UsageError, and
/// DeviceError where memory does not suffice, naming what it would take and what fits.
std::unique_ptr<Network> make_closed_form(TrainingStart& start, const TrainOptions& options,
                                          Communicator& communicator, const Log& log,
                                          PreparedRun& run);

/// Computes its weights. All ranks call it together; rank 0 computes.
void compute_closed_form(const TrainOptions& options, const PreparedRun& run, const Log& log,
                         Network& network);

/// Evaluates it on what the run holds back, if it does, and says what came of that.
void validate_closed_form(Network& network, const PreparedRun& run, const Log& log,
                          TrainResult& result);

}  // namespace norn::run
