// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/descriptor.h"
#include "tools/common/command_line.h"
#include "tools/common/console.h"

#include <optional>
#include <string>

/// The trainer's options for how the learning rate changes, and for clipping gradients.
namespace norn::tools {

struct RateOptions {
  // Not given: the descriptor's "Training" block, or the built-in defaults.
  std::string kind;
  std::optional<float> warm_up;
  std::optional<Index> interval;
  std::optional<float> multiplier;
  std::optional<Index> patience;
  std::optional<float> minimum;
  std::optional<float> clip_gradient;

  void add_to(CommandLine& line);
  /// Values that no run can have.
  void check(OptionFaults& faults) const;
  /// Puts the settings that were given into the descriptor; those that have no effect with its
  /// schedule are warned of.
  void apply_to(TrainingDescriptor& training, Console& console) const;
};

}  // namespace norn::tools
