// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/training/trainer_options.h"

/// What the trainer does with its options.
namespace norn::tools {

/// Trains, or prints the plan. Returns the exit code: 0, or 75 when a signal stopped the run after
/// a checkpoint. `record_failure` is set to what records a failure of the run, which the caller
/// tells.
int run_training(const TrainerOptions& options, MpiSession& session, FailureSink& record_failure);

/// `--check-gradients`, and Command Validate of a command file: compares gradients of the first
/// batch with differences of its cost, on the CPU, and prints a table. Throws Error when a gradient
/// is wrong.
int run_gradient_check(const TrainerOptions& options, MpiSession& session);

}  // namespace norn::tools
