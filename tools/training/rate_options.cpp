// SPDX-License-Identifier: Apache-2.0
// Options for rate schedules and clipping.
#include "tools/training/rate_options.h"

#include "src/nn/descriptor.h"

#include <fmt/format.h>

namespace norn::tools {

void add_rate_options(run::RateSettings& settings, CommandLine& line) {
  const RateSchedule defaults;
  line.section("Learning rate schedule and clipping (docs/user/numerics.md)");
  line.choice("--rate-schedule", "", run::rate_schedule_names(), settings.kind,
              "how the rate changes from epoch to epoch: step multiplies it every --rate-interval "
              "epochs, cosine lets it fall to --rate-minimum over all epochs, plateau multiplies "
              "it when validations (without any, the cost of training) get no better")
      .default_text = run::rate_schedule_names()[std::size_t(defaults.kind)];
  line.option("--warm-up", "", "X", settings.warm_up,
              "epochs, such as 0.5, in which the rate rises from step to step before")
      .default_text = fmt::format("{:g}", defaults.warm_up);
  line.option("--rate-interval", "", "N", settings.interval, "step: epochs between changes")
      .default_text = fmt::format("{}", defaults.interval);
  line.option("--rate-multiplier", "", "X", settings.multiplier,
              "step and plateau: of every change")
      .default_text = fmt::format("{:g}", defaults.multiplier);
  line.option("--rate-patience", "", "N", settings.patience,
              "plateau: validations, or epochs, without a better value before a change")
      .default_text = fmt::format("{}", defaults.patience);
  line.option("--rate-minimum", "", "X", settings.minimum,
              "cosine and plateau: the share of --rate below which it never falls")
      .default_text = fmt::format("{:g}", defaults.minimum);
  line.option("--clip-gradient", "", "X", settings.clip_gradient,
              "hold every element of a gradient between -X and X; 0: as it is")
      .default_text = fmt::format("{:g}", TrainingDescriptor().clip_gradient);
}

}  // namespace norn::tools
