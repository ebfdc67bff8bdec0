// SPDX-License-Identifier: Apache-2.0
// Checking the settings of a run by their table, and putting them into its descriptor.
#include "src/base/option_faults.h"
#include "src/base/text.h"
#include "src/nn/rate_kind_names.h"
#include "src/run/train_settings.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

namespace norn::run {
namespace {

bool within(const ParameterLimits& limits, double value) {
  if (limits.above_low ? !(value > limits.low) : !(value >= limits.low)) return false;
  return limits.below_high ? value < limits.high : value <= limits.high;
}

std::string limits_text(const ParameterLimits& limits) {
  if (limits.above_low) return fmt::format("above {:g}", limits.low);
  if (!std::isfinite(limits.high)) return fmt::format("at least {:g}", limits.low);
  return limits.below_high ? fmt::format("at least {:g} and below {:g}", limits.low, limits.high)
                           : fmt::format("from {:g} to {:g}", limits.low, limits.high);
}

template <typename T>
void check_number(const TrainSetting& setting, const T& value, OptionFaults& faults) {
  const std::string name = "`" + setting.name + "`";
  faults.require_range(within(setting.limits, double(value)), name.c_str(), value,
                       limits_text(setting.limits));
}

void check_setting(const TrainSetting& setting, const SettingMember& where, OptionFaults& faults) {
  std::visit(
      [&](const auto* member) {
        using T = std::remove_cvref_t<decltype(*member)>;
        if constexpr (std::is_same_v<T, std::string>) {
          if (setting.words.empty() || member->empty()) return;
          const bool known = std::ranges::any_of(setting.words, [&](const std::string& word) {
            return equal_ignoring_case(word, *member);
          });
          if (!known)
            faults.fail(fmt::format("`{}` {}: there is no such choice; choose of: {}", setting.name,
                                    *member, join(setting.words)));
        } else if constexpr (std::is_same_v<T, std::optional<std::uint64_t>>) {
          return;  // each of them will do
        } else if constexpr (requires { **member; }) {
          if (*member) check_number(setting, **member, faults);
        } else if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          check_number(setting, *member, faults);
        }
      },
      where);
}

// Whether a number has been given.
bool is_set(const SettingMember& where) {
  return std::visit(
      [](const auto* member) {
        if constexpr (requires { member->has_value(); }) return member->has_value();
        return false;
      },
      where);
}

}  // namespace

void check_settings(TrainOptions options, OptionFaults& faults) {
  const std::vector<SharedParameter> known = parameters_of<UpdateRule>();
  for (const auto& given : options.rule)
    if (std::ranges::none_of(known, [&](const auto& one) { return one.key->name == given.first; }))
      faults.fail(fmt::format("`rule` {}: no update rule has such a parameter", given.first));
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& setting : group.settings)
      check_setting(setting, setting.member(options), faults);
}

void apply_settings(TrainOptions options, TrainingDescriptor& training, const Log& notes) {
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& setting : group.settings)
      if (setting.apply) setting.apply(options, training, notes);
  for (const TrainSettings& group : train_settings())
    for (const TrainSetting& setting : group.settings)
      if (!setting.schedules.empty() && is_set(setting.member(options)) &&
          std::ranges::count(setting.schedules, training.schedule.kind) == 0)
        notes.warning(
            fmt::format("`{}` has no effect with the rate schedule {}; `rate_schedule` "
                        "chooses another",
                        setting.name, rate_kind_words()[std::size_t(training.schedule.kind)]));
}

}  // namespace norn::run
