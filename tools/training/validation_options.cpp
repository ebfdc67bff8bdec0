// SPDX-License-Identifier: Apache-2.0
// Options for validating, and how they change a descriptor.
#include "tools/training/validation_options.h"

#include "norn/base/error.h"
#include "norn/base/text.h"
#include "norn/engine/watched_metric.h"

#include <fmt/format.h>

namespace norn::tools {
namespace {

// A metric that the descriptor names and the run shall not go by.
constexpr const char* kNone = "none";

// Runs a parser and puts the option's name before what it has to say.
template <typename Parse>
void check_with(OptionFaults& faults, const char* option, const std::string& text, Parse parse) {
  if (text.empty() || text == kNone) return;
  faults.attempt(option, [&] {
    try {
      parse(text);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", option, error.what()));
    }
  });
}

}  // namespace

void ValidationOptions::add_to(CommandLine& line) {
  const ValidationDescriptor defaults;
  line.section("Validation while training (docs/user/validation.md)");
  line.option("--validation-input", "", "FILE", inputs,
              "data sets to validate with, named as those of --input: what is known of examples "
              "that are not trained on")
      .may_differ = true;
  line.option("--validation-output", "", "FILE", outputs,
              "the held-out part of the same examples; without it those of --validation-input")
      .may_differ = true;
  line.option("--validation-split", "", "X", split,
              "hold back this share of the training data instead, 0.1 for example; drawn with the "
              "seed, the same on any number of ranks");
  line.choice("--validation-by", "", {"user", "entry"}, by,
              "what is held back: whole examples, or entries of every example")
      .default_text = "user";
  line.option("--validate-every", "", "N", every, "epochs between validations").default_text =
      fmt::format("{}", defaults.every);
  line.option("--metrics-at", "", "K,K,...", metrics_at, "lengths of the lists that are evaluated")
      .default_text = defaults.metrics_at;
  line.option("--early-stop", "", "METRIC", early_stop,
              "end the run when this metric has not become better, and keep the best model: loss, "
              "or recall, precision, ndcg, map, mrr, hit_rate or coverage with its K, such as "
              "ndcg@20; none: not by the descriptor's");
  line.option("--patience", "", "N", patience, "validations without a better value before that")
      .default_text = fmt::format("{}", defaults.patience);
  line.option("--early-stop-from", "", "X", stop_from,
              "share of the epochs before which the run is not ended early, nor in the warm-up")
      .default_text = "0.25; with the rate schedule Cosine 0.75";
  line.option("--min-delta", "", "X", min_delta, "a better value is better by more than this")
      .default_text = fmt::format("{:g}", defaults.min_delta);
  line.option("--keep-best", "", "METRIC", keep_best,
              "make all epochs, but keep the best model instead of the last one; without a metric "
              "by ndcg at the first K")
      .bare_value = "auto";
  line.toggle(
      "--refit", "", refit,
      "with --validation-split: after the run train on everything from the beginning, up to "
      "the epoch whose model was the best, with the rates that it had; implies --keep-best");
}

void ValidationOptions::check(OptionFaults& faults) const {
  if (split)
    faults.require_range(*split >= 0.0f && *split < 1.0f, "--validation-split", *split,
                         "at least 0 and below 1");
  if (!inputs.empty() && split && *split > 0.0f)
    faults.fail(
        "--validation-split holds back a part of the training data and --validation-input names "
        "data of their own: give one of the two");
  if (inputs.empty() && !outputs.empty())
    faults.fail("--validation-output needs --validation-input; give that too");
  faults.require_at_least<Index>(1, "--validate-every", every);
  faults.require_at_least<Index>(1, "--patience", patience);
  faults.require_at_least(0.0f, "--min-delta", min_delta);
  if (stop_from)
    faults.require_range(*stop_from >= 0.0f && *stop_from <= 1.0f, "--early-stop-from", *stop_from,
                         "from 0 to 1");
  if (refit && !inputs.empty())
    faults.fail(
        "--refit adds what was held back of the training data, and --validation-input names data "
        "that are none of them: the best model is trained on everything already; leave --refit "
        "out");
  check_with(faults, "--metrics-at", metrics_at, parse_metrics_at);
  check_with(faults, "--early-stop", early_stop, parse_watched_metric);
  if (keep_best != "auto") check_with(faults, "--keep-best", keep_best, parse_watched_metric);
}

void ValidationOptions::apply_to(ValidationDescriptor& validation, bool refits_later) const {
  if (split) validation.split = *split;
  if (!inputs.empty()) validation.split = 0.0f;
  if (!by.empty()) validation.by = by == "user" ? ValidationBy::user : ValidationBy::entry;
  if (every) validation.every = *every;
  if (!metrics_at.empty()) validation.metrics_at = metrics_at;
  if (!early_stop.empty()) validation.early_stop = early_stop == kNone ? "" : early_stop;
  if (patience) validation.patience = *patience;
  if (min_delta) validation.min_delta = *min_delta;
  if (stop_from) validation.stop_from = *stop_from;
  if (keep_best == kNone) validation.keep_best.clear();
  const bool implied = refits_later && keep_best.empty() && validation.keep_best.empty();
  if ((keep_best.empty() && !implied) || keep_best == kNone) return;
  validation.keep_best =
      keep_best != "auto" && !implied ? keep_best
      : !validation.early_stop.empty()
          ? validation.early_stop
          : fmt::format("ndcg@{}", parse_metrics_at(validation.metrics_at).front());
}

}  // namespace norn::tools
