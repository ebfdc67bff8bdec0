// SPDX-License-Identifier: Apache-2.0
// Options for validating.
#include "tools/training/validation_options.h"

#include "norn/engine/metric.h"
#include "src/base/text.h"
#include "src/nn/descriptor.h"

#include <fmt/format.h>

namespace norn::tools {

void add_validation_options(run::ValidationSettings& settings, CommandLine& line) {
  const ValidationDescriptor defaults;
  line.section("Validation while training (docs/user/validation.md)");
  line.option("--validation-input", "", "FILE", settings.inputs,
              "data sets to validate with, named as those of --input: what is known of examples "
              "that are not trained on")
      .may_differ = true;
  line.option("--validation-output", "", "FILE", settings.outputs,
              "the held-out part of the same examples; without it those of --validation-input")
      .may_differ = true;
  line.option("--validation-split", "", "X", settings.split,
              "hold back this share of the training data instead, 0.1 for example; drawn with the "
              "seed, the same on any number of ranks");
  line.choice("--validation-by", "", {"user", "entry"}, settings.by,
              "what is held back: whole examples, or entries of every example")
      .default_text = "user";
  line.option("--validate-every", "", "N", settings.every, "epochs between validations")
      .default_text = fmt::format("{}", defaults.every);
  line.option("--metrics-at", "", "K,K,...", settings.metrics_at,
              "lengths of the lists that are evaluated")
      .default_text = defaults.metrics_at;
  line.option("--early-stop", "", "METRIC", settings.early_stop,
              fmt::format("end the run when this metric has not become better, and keep the best "
                          "model: loss, or one of {} with its K, such as ndcg@20; none: not by the "
                          "descriptor's",
                          join(metric_names())));
  line.option("--patience", "", "N", settings.patience,
              "validations without a better value before that")
      .default_text = fmt::format("{}", defaults.patience);
  line.option("--early-stop-from", "", "X", settings.stop_from,
              "share of the epochs before which the run is not ended early, nor in the warm-up")
      .default_text = "0.25; with the rate schedule Cosine 0.75";
  line.option("--min-delta", "", "X", settings.min_delta,
              "a better value is better by more than this")
      .default_text = fmt::format("{:g}", defaults.min_delta);
  line.option("--keep-best", "", "METRIC", settings.keep_best,
              "make all epochs, but keep the best model instead of the last one; without a metric "
              "by ndcg at the first K")
      .bare_value = "auto";
  line.toggle(
      "--refit", "", settings.refit,
      "with --validation-split: after the run train on everything from the beginning, up to "
      "the epoch whose model was the best, with the rates that it had; implies --keep-best");
}

}  // namespace norn::tools
