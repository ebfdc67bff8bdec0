// SPDX-License-Identifier: Apache-2.0
// The end of a search.
#include "src/run/automatic/conclusion.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/run/validation_curve.h"

#include <cmath>

#include <fmt/format.h>

namespace norn::run {
namespace {

constexpr double kLikely = 0.2;  // the p of a clear lead, below which it is taken for one

JsonValue json_of(const Finding& finding, const SearchFacts& facts) {
  JsonValue value = to_json(finding.candidate);
  const NetworkDescriptor network = network_of(finding.candidate, facts);
  value.set("settings", settings_of(network, finding.candidate));
  value.set("cost", cost_of(finding.candidate, facts).in_search());
  if (finding.failed) return value.set("failed", finding.failure);
  return value.set("value", finding.value);
}

// "+11.0 % over the plain recipe, +-1.2".
std::string gain_text(const Difference& difference) {
  if (!(difference.a > 0.0)) return "the plain recipe finds nothing";
  const double each = 100.0 / difference.a;
  const double half = 0.5 * (difference.interval.high - difference.interval.low);
  return fmt::format("{:+.1f} % over the plain recipe, +-{:.1f}",
                     each * (difference.b - difference.a), each * half);
}

}  // namespace

Conclusion conclude(const std::vector<Finding>& findings) {
  Conclusion conclusion;
  const std::vector<Tried> tried(findings.begin(), findings.end());
  conclusion.best = best_of(tried).value();
  const Finding& best = findings[conclusion.best];
  const Finding& plain = findings.front();
  conclusion.difference.a = plain.value;
  conclusion.difference.b = best.value;
  if (conclusion.best != 0 && !plain.values.empty()) {
    conclusion.difference =
        paired_differences(std::span(&plain.values, 1), std::span(&best.values, 1), Resampling())
            .front();
    const bool is_likely =
        is_clearly_better(best.value, plain.value) && conclusion.difference.p <= kLikely;
    if (is_likely || conclusion.difference.better > 0) conclusion.chosen = conclusion.best;
  }
  const Finding& chosen = findings[conclusion.chosen];
  conclusion.still_rises = still_rises(chosen.earlier, chosen.value);
  return conclusion;
}

std::string settings_of(const NetworkDescriptor& network, const Candidate& candidate) {
  const std::string& recipe = recipe_names()[std::size_t(candidate.recipe)];
  const TrainingDescriptor& training = network.training;
  const LayerDescriptor* hidden = network.find("Hidden");
  if (!hidden) return fmt::format("{}, lambda {:g}", recipe, training.lambda);
  return fmt::format("{}, {} hidden units, rate {:g}, {}", recipe, hidden->units(), training.rate,
                     counted(training.epochs, "epoch"));
}

std::string record_of(const SearchStory& story, const std::vector<Finding>& findings,
                      const SearchFacts& facts, const Conclusion& conclusion) {
  JsonValue record = JsonValue::object();
  record.set("metric", story.metric).set("held_back", story.held_back);
  record.set("budget", story.budget).set("spent", story.spent);
  JsonValue candidates = JsonValue::array();
  for (const Finding& finding : findings) candidates.push(json_of(finding, facts));
  record.set("candidates", candidates);
  if (findings.empty()) {
    record.set("not_searched", story.not_searched);
  } else {
    const Difference& difference = conclusion.difference;
    record.set("chosen", conclusion.chosen).set("best", conclusion.best);
    record.set("plain_value", difference.a).set("best_value", difference.b);
    if (conclusion.best != 0)
      record.set("difference_low", difference.interval.low)
          .set("difference_high", difference.interval.high)
          .set("p", difference.p);
    record.set("still_rises", conclusion.still_rises);
  }
  if (story.end.left_out) {
    record.set("left_out", to_json(*story.end.left_out));
    record.set("budget_for_it", story.end.budget_for_it);
  }
  return parse_json(record.line(), "record").line();
}

std::vector<std::string> lines_of(const SearchStory& story, const std::vector<Finding>& findings,
                                  const SearchFacts& facts, const Conclusion& conclusion) {
  std::vector<std::string> lines;
  const Candidate plain;
  if (findings.empty()) {
    lines.push_back(fmt::format("{}: `recipe` auto trains {}", story.not_searched,
                                settings_of(network_of(plain, facts), plain)));
    return lines;
  }
  const auto shown = [&](std::size_t number) {
    const Candidate& candidate = findings[number].candidate;
    return settings_of(network_of(candidate, facts), candidate);
  };
  const Finding& chosen = findings[conclusion.chosen];
  std::string line =
      fmt::format("chose {}{}: {} {:.4f} on {}", conclusion.chosen == 0 ? "the plain recipe, " : "",
                  shown(conclusion.chosen), story.metric, chosen.value, story.held_back);
  if (conclusion.chosen != 0)
    line += fmt::format(" ({})", gain_text(conclusion.difference));
  else if (conclusion.best != 0)
    line += fmt::format("; no difference to the best, {} ({})", shown(conclusion.best),
                        gain_text(conclusion.difference));
  else
    line += "; the best that was tried";
  lines.push_back(line);
  if (conclusion.still_rises)
    lines.push_back(fmt::format(
        "{} still rose at the end of its training: a longer one, or a higher rate, may be better",
        story.metric));
  if (story.end.left_out)
    lines.push_back(fmt::format(
        "the search ended while it still gained: with `budget` {:g} it tries {}, too",
        std::ceil(story.end.budget_for_it * 10.0) / 10.0, name_of(*story.end.left_out)));
  return lines;
}

}  // namespace norn::run
