// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/descriptor.h"
#include "tools/common/command_line.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// The trainer's options for validating while it trains.
namespace norn::tools {

struct ValidationOptions {
  std::vector<std::filesystem::path> inputs;
  std::vector<std::filesystem::path> outputs;

  // Not given: the descriptor's "Training" block, or the built-in defaults.
  std::optional<float> split;
  std::string by;
  std::optional<Index> every;
  std::string metrics_at;
  std::string early_stop;
  std::string keep_best;  ///< "auto": by the metric that is watched anyway
  std::optional<Index> patience;
  std::optional<float> min_delta;
  std::optional<float> stop_from;
  bool refit = false;  ///< of the run as a whole

  void add_to(CommandLine& line);
  /// Values that no run can have.
  void check(OptionFaults& faults) const;
  /// Puts the settings that were given into the descriptor. A run that trains on everything later
  /// keeps its best model, by whatever metric.
  void apply_to(ValidationDescriptor& validation, bool refits_later) const;
};

}  // namespace norn::tools
