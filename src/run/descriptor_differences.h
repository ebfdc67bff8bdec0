// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/descriptor.h"
#include "src/nn/json_value.h"
#include "src/run/train_settings.h"

#include <string>
#include <vector>

/// Where two descriptors say different things.
namespace norn::run {

struct DescriptorDifference {
  std::string place;  ///< "Training.Alpha", "Layers.Hidden.N": layers go by their names
  JsonValue now;      ///< null: the default
  JsonValue then;     ///< null: the default
  const TrainSetting* setting = nullptr;  ///< that stands there; null: none
  bool is_layer = false;                  ///< one that the other descriptor does not have
  std::string wish = {};  ///< what a recipe is asked for, `recipe` or `hidden`; empty: it is not

  /// What a caller names it by: a setting, or a wish to a recipe; empty: its place alone.
  std::string name() const { return setting ? setting->name : wish; }
  /// "Training.Alpha is 0.1, the checkpoint has 0.01".
  std::string in_keys() const;
  /// "`rate` is 0.1, the checkpoint has 0.01"; what has no name is of the `network`.
  std::string in_settings() const;
};

/// All of them, by the names of keys and in the order of layers.
std::vector<DescriptorDifference> descriptor_differences(const NetworkDescriptor& now,
                                                         const NetworkDescriptor& then);

}  // namespace norn::run
