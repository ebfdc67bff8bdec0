// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/command_file.h"
#include "src/nn/descriptor.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// What a command file of DSSTNE says, as options of trainer and predictor.
namespace norn::tools {

struct TrainerOptions;
struct PredictorOptions;

/// Put the file's settings where those of the command line come later and win. Throw UsageError,
/// also for commands that the other program runs.
void read_commands(const std::filesystem::path& file, TrainerOptions& options);
void read_commands(const std::filesystem::path& file, PredictorOptions& options);

/// For a repeatable option whose files a command file may have set: those that the command line
/// gives replace them.
std::function<void(const std::string& file)> files_of_line(
    std::vector<std::filesystem::path>& files);

}  // namespace norn::tools
