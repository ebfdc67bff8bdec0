// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/common/trainer_options.h"

/// What the trainer does with its options.
namespace norn::tools {

/// Trains, or prints the plan. Returns the exit code: 0, or 75 when a signal stopped the run after
/// a checkpoint.
int run_training(const TrainerOptions& options, MpiSession& session);

}  // namespace norn::tools
