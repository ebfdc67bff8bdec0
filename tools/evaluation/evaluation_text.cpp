// SPDX-License-Identifier: Apache-2.0
// Metrics as a table and as JSON.
#include "src/base/text.h"
#include "src/nn/json_value.h"
#include "tools/evaluation/evaluation_run.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace norn::tools {
namespace {
constexpr std::size_t kPieceBytes = 1 << 20;

// Of a metric that is a mean over examples, where intervals were asked for.
const Interval* interval_of(const Ranking& ranking, const MetricInfo& metric, Index k) {
  for (std::size_t i = 0; i < ranking.intervals.size(); ++i)
    if (ranking.examples.names[i].name == metric.name && ranking.examples.names[i].k == k)
      return &ranking.intervals[i];
  return nullptr;
}

std::size_t column(const MetricInfo& metric) {
  return std::max<std::size_t>(9, metric.title.size());
}

// Below the means at one K: where their intervals begin and end.
std::string interval_rows(const Ranking& ranking, const MetricsAtK& at, std::size_t width) {
  std::string out;
  for (const auto end : {&Interval::low, &Interval::high}) {
    out += fmt::format("  {:<{}}  {:>7}", end == &Interval::low ? "from" : "to", width - 2, "");
    at.for_each(
        [&](const MetricInfo& metric, double) {
          const Interval* const found = interval_of(ranking, metric, at.k);
          out += found != nullptr && !std::isnan(found->*end)
                     ? fmt::format("  {:>{}.4f}", found->*end, column(metric))
                     : fmt::format("  {:>{}}", "-", column(metric));
        },
        MetricUse::asked);
    out += '\n';
  }
  return out;
}

std::string drawing(const Resampling& resampling) {
  return fmt::format("{} resamples of the examples, seed {}", with_thousands(resampling.resamples),
                     resampling.seed);
}

std::string_view verdict(const Difference& difference) {
  if (difference.better == 0) return "no difference";
  return difference.better > 0 ? "other" : "model";
}

std::string comparison_table(const EvaluationResult& result) {
  const Comparison& all = *result.comparison;
  std::string out = fmt::format(
      "\n{:<18}{:>9}{:>9}{:>12}  {:>20}{:>9}  better\n", "", "model", "other", "difference",
      fmt::format("{:g} % interval", 100.0 * result.resampling.level), "p");
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    const Difference& one = all.differences[i];
    const std::string ends =
        std::isnan(one.interval.low)
            ? "-"
            : fmt::format("{:+.4f} .. {:+.4f}", one.interval.low, one.interval.high);
    out += fmt::format("{:<18}{:>9.4f}{:>9.4f}{:>+12.4f}  {:>20}{:>9.4f}  {}\n",
                       fmt::format("{}@{}", all.names[i].title, all.names[i].k), one.a, one.b,
                       one.b - one.a, ends, one.p, verdict(one));
  }
  return out + fmt::format("other - model: {}\n", drawing(result.resampling));
}

JsonValue drawing_json(const Resampling& resampling) {
  return JsonValue::object()
      .set("level", resampling.level)
      .set("resamples", resampling.resamples)
      .set("seed", resampling.seed);
}

// A list with an entry for each K, as those of the rankings.
JsonValue differences_json(const Comparison& all) {
  JsonValue list = JsonValue::array();
  JsonValue at_k;
  for (std::size_t i = 0; i < all.names.size(); ++i) {
    const Difference& one = all.differences[i];
    if (at_k.is_null()) at_k = JsonValue::object().set("K", all.names[i].k);
    at_k.set(std::string(all.names[i].title), JsonValue::object()
                                                  .set("model", one.a)
                                                  .set("other", one.b)
                                                  .set("difference", one.b - one.a)
                                                  .set("low", one.interval.low)
                                                  .set("high", one.interval.high)
                                                  .set("p", one.p)
                                                  .set("better", std::string(verdict(one))));
    if (i + 1 < all.names.size() && all.names[i + 1].k == all.names[i].k) continue;
    list.push(at_k);
    at_k = JsonValue();
  }
  return list;
}

JsonValue ranking_json(const Ranking& ranking) {
  JsonValue list = JsonValue::array();
  for (const MetricsAtK& at : ranking.evaluation.metrics) {
    JsonValue one = JsonValue::object().set("K", at.k);
    JsonValue intervals = JsonValue::object();
    at.for_each(
        [&](const MetricInfo& metric, double x) {
          one.set(std::string(metric.title), x);
          if (const Interval* const found = interval_of(ranking, metric, at.k))
            intervals.set(std::string(metric.title),
                          JsonValue::array().push(found->low).push(found->high));
        },
        MetricUse::asked);
    if (!ranking.intervals.empty()) one.set("intervals", intervals);
    list.push(one);
  }
  return list;
}

}  // namespace

std::string evaluation_table(const EvaluationResult& result) {
  const Evaluation& first = result.rankings.front().evaluation;
  std::size_t width = result.rankings.front().intervals.empty() ? 5 : 6;
  for (const Ranking& ranking : result.rankings) width = std::max(width, ranking.name.size());
  std::string out = fmt::format("{:<{}}  {:>7}", "", width, "K");
  first.metrics.at(0).for_each(
      [&](const MetricInfo& metric, double) {
        out += fmt::format("  {:>{}}", metric.title, column(metric));
      },
      MetricUse::asked);
  out += '\n';
  for (const Ranking& ranking : result.rankings)
    for (const MetricsAtK& at : ranking.evaluation.metrics) {
      out += fmt::format("{:<{}}  {:>7}", ranking.name, width, at.k);
      at.for_each([&](const MetricInfo& metric,
                      double value) { out += fmt::format("  {:>{}.4f}", value, column(metric)); },
                  MetricUse::asked);
      out += '\n';
      if (!ranking.intervals.empty()) out += interval_rows(ranking, at, width);
    }
  out += fmt::format("{} examples, {} without held-out units, {} units\n",
                     with_thousands(first.examples), with_thousands(first.skipped),
                     with_thousands(first.units));
  if (!result.rankings.front().intervals.empty())
    out += fmt::format("from, to: {:g} % intervals, {}\n", 100.0 * result.resampling.level,
                       drawing(result.resampling));
  if (result.comparison) out += comparison_table(result);
  return out;
}

std::string evaluation_json(const EvaluationResult& result) {
  const Evaluation& first = result.rankings.front().evaluation;
  JsonValue value = JsonValue::object();
  value.set("examples", first.examples).set("skipped", first.skipped).set("units", first.units);
  if (!result.rankings.front().intervals.empty() || result.comparison)
    value.set("resampling", drawing_json(result.resampling));
  for (const Ranking& ranking : result.rankings) value.set(ranking.name, ranking_json(ranking));
  if (result.comparison) value.set("differences", differences_json(*result.comparison));
  return value.text();
}

std::string comparison_table(const EvaluationResult& result, Index examples) {
  return comparison_table(result).substr(1) +
         fmt::format("{} examples\n", with_thousands(examples));
}

std::string comparison_json(const EvaluationResult& result, Index examples) {
  JsonValue value = JsonValue::object();
  value.set("examples", examples).set("resampling", drawing_json(result.resampling));
  return value.set("differences", differences_json(*result.comparison)).text();
}

std::string confusion_table(const ConfusionMatrix& matrix) {
  std::vector<std::string> labels;
  if (matrix.labels.has_words()) {
    const LabelList list = matrix.labels.list();
    for (Index i = 0; i < std::min(list.size(), matrix.classes); ++i) labels.emplace_back(list[i]);
  }
  for (Index i = Index(labels.size()); i < matrix.classes; ++i) labels.push_back(std::to_string(i));
  std::string text = "true";
  for (const std::string& label : labels) text += "\t" + label;
  text += '\n';
  for (Index row = 0; row < matrix.classes; ++row) {
    text += labels[std::size_t(row)];
    for (Index i = 0; i < matrix.classes; ++i)
      text += fmt::format("\t{}", matrix.counts[std::size_t(row * matrix.classes + i)]);
    text += '\n';
  }
  return text;
}

void ExampleTable::add(std::string_view ranking, Index example, const MetricsAtK& values) {
  const auto for_each = [&](const auto& visit) {
    values.for_each(
        [&](const MetricInfo& metric, double value) {
          if (!std::isnan(value)) visit(metric, value);
        },
        MetricUse::asked);
  };
  if (!has_head_) {
    has_head_ = true;
    text_ = "ranking\texample\tK";
    for_each([&](const MetricInfo& metric, double) { text_ += fmt::format("\t{}", metric.name); });
    text_ += '\n';
  }
  text_ += fmt::format("{}\t{}\t{}", ranking, example, values.k);
  for_each([&](const MetricInfo&, double value) { text_ += fmt::format("\t{}", value); });
  text_ += '\n';
  if (text_.size() < kPieceBytes) return;
  file_.write(text_);
  text_.clear();
}

void ExampleTable::commit() {
  file_.write(text_);
  file_.commit();
}

}  // namespace norn::tools
