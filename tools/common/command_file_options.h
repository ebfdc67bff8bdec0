// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/command_file.h"
#include "norn/nn/descriptor.h"

#include <filesystem>
#include <string>
#include <vector>

/// What a command file of DSSTNE says, as options of trainer and predictor.
namespace norn::tools {

struct TrainerOptions;
struct PredictorOptions;

/// The learning rate is multiplied after every so many epochs; an interval of 0: it stays.
struct RateSteps {
  Index interval = 0;
  float multiplier = 1.0f;
};
void set_rate_steps(const RateSteps& steps, TrainingDescriptor& training);

/// Put the file's settings where those of the command line come later and win. Throw UsageError,
/// also for commands that the other program runs.
void read_commands(const std::filesystem::path& file, TrainerOptions& options);
void read_commands(const std::filesystem::path& file, PredictorOptions& options);

}  // namespace norn::tools
