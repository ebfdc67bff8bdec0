// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/parameter.h"
#include "norn/run/train.h"
#include "src/nn/descriptor.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// The settings of TrainOptions that are numbers, words, switches and files, as one table: what a
/// run checks, what it puts into the descriptor, and the trainer's options follow from it.
namespace norn::run {

/// What another value means when a run is resumed.
enum class Change {
  another_run,  ///< it goes on with it, and is another run than that of the checkpoint
  never,        ///< it is refused
  any_time      ///< it goes on with it, and is the same run
};

/// Where a setting stands in TrainOptions.
using SettingMember =
    std::variant<std::optional<Index>*, std::optional<float>*, std::optional<double>*,
                 std::optional<std::uint64_t>*, Index*, int*, double*, bool*, std::string*,
                 std::filesystem::path*, std::vector<std::filesystem::path>*>;

struct TrainSetting {
  std::string name;   ///< "rate_interval": `rate_interval` in messages
  std::string value;  ///< what stands for the value in texts: "N"; empty: a switch, or words
  std::string help;   ///< names other settings in backquotes
  std::function<SettingMember(TrainOptions&)> member;
  ParameterLimits limits = {};
  std::string default_text = {};        ///< where it is not set; empty: what TrainOptions has
  std::vector<std::string> words = {};  ///< what a choice is between
  std::string bare_value = {};          ///< what the name alone stands for
  bool may_differ = false;              ///< no result depends on it
  bool for_trials = false;              ///< a search hands it to each of its trials as it is
  std::string key = {};  ///< its place in the descriptor, "Training.Alpha"; empty: it has none
  Change change = Change::another_run;   ///< of those with a key
  std::vector<RateKind> schedules = {};  ///< that it has an effect with; empty: all
  /// Puts it into the descriptor, where it is set. Null: it is not for that.
  std::function<void(const TrainOptions&, TrainingDescriptor&, const Log&)> apply = {};
};

/// A heading of texts with its settings.
struct TrainSettings {
  std::string title;
  std::vector<TrainSetting> settings;
};

/// All of them, in the order of texts. What is applied later may build on what was before.
const std::vector<TrainSettings>& train_settings();

/// That which stands at a place of the descriptor; null: none does.
const TrainSetting* setting_of_key(const std::string& key);

/// Values that no run can have.
void check_settings(TrainOptions options, OptionFaults& faults);
/// Puts what is set into the descriptor; what has no effect with its rule or its schedule is warned
/// of.
void apply_settings(TrainOptions options, TrainingDescriptor& training, const Log& notes);

}  // namespace norn::run
