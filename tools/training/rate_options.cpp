// SPDX-License-Identifier: Apache-2.0
// Options for rate schedules and clipping, and how they change a descriptor.
#include "tools/training/rate_options.h"

#include <string>
#include <vector>

#include <fmt/format.h>

namespace norn::tools {
namespace {

// By RateKind.
const std::vector<std::string>& kind_names() {
  static const std::vector<std::string> names = {"constant", "step", "cosine", "plateau"};
  return names;
}

const std::string& name_of_kind(RateKind kind) {
  return kind_names()[std::size_t(kind)];
}

}  // namespace

void RateOptions::add_to(CommandLine& line) {
  const RateSchedule defaults;
  line.section("Learning rate schedule and clipping (docs/user/numerics.md)");
  line.choice("--rate-schedule", "", kind_names(), kind,
              "how the rate changes from epoch to epoch: step multiplies it every --rate-interval "
              "epochs, cosine lets it fall to --rate-minimum over all epochs, plateau multiplies "
              "it when validations (without any, the cost of training) get no better")
      .default_text = name_of_kind(defaults.kind);
  line.option("--warm-up", "", "X", warm_up,
              "epochs, such as 0.5, in which the rate rises from step to step before")
      .default_text = fmt::format("{:g}", defaults.warm_up);
  line.option("--rate-interval", "", "N", interval, "step: epochs between changes").default_text =
      fmt::format("{}", defaults.interval);
  line.option("--rate-multiplier", "", "X", multiplier, "step and plateau: of every change")
      .default_text = fmt::format("{:g}", defaults.multiplier);
  line.option("--rate-patience", "", "N", patience,
              "plateau: validations, or epochs, without a better value before a change")
      .default_text = fmt::format("{}", defaults.patience);
  line.option("--rate-minimum", "", "X", minimum,
              "cosine and plateau: the share of --rate below which it never falls")
      .default_text = fmt::format("{:g}", defaults.minimum);
  line.option("--clip-gradient", "", "X", clip_gradient,
              "hold every element of a gradient between -X and X; 0: as it is")
      .default_text = fmt::format("{:g}", TrainingDescriptor().clip_gradient);
}

void RateOptions::check(OptionFaults& faults) const {
  faults.require_at_least(0.0f, "--warm-up", warm_up);
  faults.require_at_least<Index>(1, "--rate-interval", interval);
  if (multiplier)
    faults.require_range(*multiplier > 0.0f, "--rate-multiplier", *multiplier, "above 0");
  faults.require_at_least<Index>(1, "--rate-patience", patience);
  if (minimum)
    faults.require_range(*minimum >= 0.0f && *minimum <= 1.0f, "--rate-minimum", *minimum,
                         "from 0 to 1");
  faults.require_at_least(0.0f, "--clip-gradient", clip_gradient);
}

void RateOptions::apply_to(TrainingDescriptor& training, Console& console) const {
  RateSchedule& schedule = training.schedule;
  for (std::size_t i = 0; i < kind_names().size(); ++i)
    if (kind == kind_names()[i]) schedule.kind = RateKind(i);
  if (warm_up) schedule.warm_up = *warm_up;
  if (interval) schedule.interval = *interval;
  if (multiplier) schedule.multiplier = *multiplier;
  if (patience) schedule.patience = *patience;
  if (minimum) schedule.minimum = *minimum;
  if (clip_gradient) training.clip_gradient = *clip_gradient;
  const auto warn = [&](bool given, const char* option, bool has_effect) {
    if (given && !has_effect)
      console.warning(
          fmt::format("{} has no effect with the rate schedule {}; --rate-schedule "
                      "chooses another",
                      option, name_of_kind(schedule.kind)));
  };
  const bool step = schedule.kind == RateKind::step, cosine = schedule.kind == RateKind::cosine,
             plateau = schedule.kind == RateKind::plateau;
  warn(interval.has_value(), "--rate-interval", step);
  warn(multiplier.has_value(), "--rate-multiplier", step || plateau);
  warn(patience.has_value(), "--rate-patience", plateau);
  warn(minimum.has_value(), "--rate-minimum", cosine || plateau);
}

}  // namespace norn::tools
