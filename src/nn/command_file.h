// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/update_rule.h"
#include "norn/tensor/views.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

/// DSSTNE's command files (CDL): what to do, with which network and data, and how.
namespace norn {

enum class CommandKind { train, predict, validate };

/// A command file with DSSTNE's defaults in place. Names of files are as they are written: they
/// are meant from the folder that a program is started in.
struct CommandFile {
  CommandKind kind = CommandKind::train;
  std::string network;  ///< a descriptor, or a model to predict with
  std::string data;
  std::optional<std::uint64_t> seed;  ///< RandomSeed

  // TrainingParameters.
  std::optional<Index> epochs;
  Index batch = 1024;            ///< MiniBatch
  float rate = 0.1f;             ///< Alpha
  Index rate_interval = 0;       ///< AlphaInterval, epochs; 0: the rate stays
  float rate_multiplier = 0.5f;  ///< AlphaMultiplier
  float lambda = 0.001f;
  float lambda1 = 0.0f;
  std::optional<float> mu;  ///< the rule's own otherwise
  std::optional<float> mu1;
  UpdateRule optimizer = Sgd{};
  std::optional<bool> shuffle;  ///< the network's own otherwise
  Index checkpoint_interval = 1;
  std::string checkpoint_name = "check";
  std::string results = "network.nc";

  // PredictionParameters.
  Index prediction_batch = 1024;
  std::string prediction_results;  ///< empty: stdout alone
};

/// Reads a command file: JSON with comments, keys without regard to case. Throws a UsageError with
/// all that is wrong with it, by line, as for descriptors; `note` receives remarks.
CommandFile read_command_file(const std::filesystem::path& file,
                              const std::function<void(const std::string&)>& note = {});
CommandFile parse_command_file(const std::string& text, const std::string& source,
                               const std::function<void(const std::string&)>& note = {});

}  // namespace norn
