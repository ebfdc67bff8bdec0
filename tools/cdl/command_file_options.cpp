// SPDX-License-Identifier: Apache-2.0
// From command files to options.
#include "tools/cdl/command_file_options.h"

#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "tools/prediction/predictor_options.h"
#include "tools/training/trainer_options.h"

#include <fmt/format.h>

namespace norn::tools {

void read_commands(const std::filesystem::path& file, TrainerOptions& options) {
  const CommandFile commands =
      read_command_file(file, [&](const std::string& note) { options.cdl_notes.push_back(note); });
  if (commands.kind == CommandKind::predict)
    throw UsageError(fmt::format("{}: Command Predict is run by the predictor: predictor --cdl {}",
                                 file.string(), file.string()));
  options.cdl = file;
  options.command = commands.kind;
  options.config = commands.network;
  options.inputs = {commands.data};
  options.model = commands.results;
  options.batch = commands.batch;
  options.epochs = commands.epochs;
  options.rate = commands.rate;
  if (commands.rate_interval > 0 && commands.rate_multiplier != 1.0f) {
    options.schedule.kind = "step";
    options.schedule.interval = commands.rate_interval;
    options.schedule.multiplier = commands.rate_multiplier;
  }
  options.lambda = commands.lambda;
  options.lambda1 = commands.lambda1;
  options.optimizer = name_of(commands.optimizer);
  options.rule["Mu"] = commands.mu;
  options.rule["Mu1"] = commands.mu1;
  options.seed = commands.seed;
  if (commands.shuffle) options.shuffle = *commands.shuffle ? "yes" : "no";
  options.checkpoint_epochs = commands.checkpoint_interval;
  options.checkpoint_name = commands.checkpoint_name;
  options.keep = 0;
}

void read_commands(const std::filesystem::path& file, PredictorOptions& options) {
  const CommandFile commands =
      read_command_file(file, [&](const std::string& note) { options.cdl_notes.push_back(note); });
  if (commands.kind != CommandKind::predict)
    throw UsageError(
        fmt::format("{}: Command {} is run by the trainer: trainer --cdl {}", file.string(),
                    commands.kind == CommandKind::train ? "Train" : "Validate", file.string()));
  options.cdl = file;
  options.model = commands.network;
  options.data = {commands.data};
  options.batch = commands.prediction_batch;
  if (!commands.prediction_results.empty()) options.output = commands.prediction_results;
}

std::function<void(const std::string& file)> files_of_line(
    std::vector<std::filesystem::path>& files) {
  return [&files, is_first = true](const std::string& file) mutable {
    if (is_first) files.clear();
    is_first = false;
    files.emplace_back(file);
  };
}

}  // namespace norn::tools
