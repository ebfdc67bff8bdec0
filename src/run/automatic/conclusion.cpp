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
  value.set("value", finding.value);
  if (!(finding.ease_weight > 0.0)) return value;
  JsonValue sum = JsonValue::object();
  sum.set("weight", finding.ease_weight).set("lambda", finding.ease_lambda);
  sum.set("value", finding.ease_value);
  return value.set("with_ease", sum);
}

double value_of(const Pick& pick, const std::vector<Finding>& findings) {
  const Finding& finding = findings[pick.number];
  return pick.with_ease ? finding.ease_value : finding.value;
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

Pick best_pick(const std::vector<Finding>& findings) {
  const std::vector<Tried> tried(findings.begin(), findings.end());
  const Pick alone{best_of(tried).value(), false};
  Pick best = alone;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Finding& finding = findings[i];
    if (finding.failed || !(finding.ease_weight > 0.0)) continue;
    if (is_clearly_better(finding.ease_value, value_of(alone, findings)) &&
        finding.ease_value > value_of(best, findings))
      best = {i, true};
  }
  return best;
}

Candidate candidate_of(const Pick& pick, const std::vector<Finding>& findings) {
  Candidate candidate = findings[pick.number].candidate;
  if (pick.with_ease) {
    candidate.ease_weight = findings[pick.number].ease_weight;
    candidate.ease_lambda = findings[pick.number].ease_lambda;
  }
  return candidate;
}

Conclusion conclude(const std::vector<Finding>& findings) {
  Conclusion conclusion;
  conclusion.best = best_pick(findings);
  const Finding& best = findings[conclusion.best.number];
  const ExampleColumn& best_values = conclusion.best.with_ease ? best.ease_values : best.values;
  const Finding& plain = findings.front();
  conclusion.difference.a = plain.value;
  conclusion.difference.b = value_of(conclusion.best, findings);
  if (conclusion.best != Pick() && !plain.values.empty()) {
    const bool is_clear = is_clearly_better(conclusion.difference.b, plain.value);
    conclusion.difference =
        paired_differences(std::span(&plain.values, 1), std::span(&best_values, 1), Resampling())
            .front();
    const bool is_likely = is_clear && conclusion.difference.p <= kLikely;
    if (is_likely || conclusion.difference.better > 0) conclusion.chosen = conclusion.best;
  }
  const Finding& chosen = findings[conclusion.chosen.number];
  conclusion.still_rises = still_rises(chosen.earlier, chosen.value);
  return conclusion;
}

std::string settings_of(const NetworkDescriptor& network, const Candidate& candidate) {
  const std::string& recipe = recipe_names()[std::size_t(candidate.recipe)];
  const TrainingDescriptor& training = network.training;
  const LayerDescriptor* hidden = network.find("Hidden");
  if (!hidden) return fmt::format("{}, lambda {:g}", recipe, training.lambda);
  const std::string ease = training.ease_weight > 0.0f
                               ? fmt::format(", and {:g} times ease, lambda {:g}",
                                             training.ease_weight, training.ease_lambda)
                               : "";
  return fmt::format("{}, {} hidden units, rate {:g}, {}{}", recipe, hidden->units(), training.rate,
                     counted(training.epochs, "epoch"), ease);
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
    record.set("chosen", conclusion.chosen.number).set("best", conclusion.best.number);
    record.set("chosen_with_ease", conclusion.chosen.with_ease);
    record.set("best_with_ease", conclusion.best.with_ease);
    record.set("plain_value", difference.a).set("best_value", difference.b);
    if (conclusion.best != Pick())
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
  const auto shown = [&](const Pick& pick) {
    const Candidate candidate = candidate_of(pick, findings);
    return settings_of(network_of(candidate, facts), candidate);
  };
  std::string line =
      fmt::format("chose {}{}: {} {:.4f} on {}",
                  conclusion.chosen == Pick() ? "the plain recipe, " : "", shown(conclusion.chosen),
                  story.metric, value_of(conclusion.chosen, findings), story.held_back);
  if (conclusion.chosen != Pick())
    line += fmt::format(" ({})", gain_text(conclusion.difference));
  else if (conclusion.best != Pick())
    line += fmt::format("; no difference to the best, {} ({})", shown(conclusion.best),
                        gain_text(conclusion.difference));
  else
    line += "; the best that was tried";
  lines.push_back(line);
  if (facts.features > 0 && !findings[conclusion.chosen.number].candidate.is_network())
    lines.push_back(
        "EASE, which is chosen, has no features of items: adding new items needs those of the "
        "known ones again, or choose `recipe` sigmoid or softmax");
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
