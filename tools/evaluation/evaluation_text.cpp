// SPDX-License-Identifier: Apache-2.0
// Metrics as a table and as JSON.
#include "src/base/text.h"
#include "src/nn/json_value.h"
#include "tools/evaluation/evaluation_run.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace norn::tools {
namespace {
constexpr std::size_t kPieceBytes = 1 << 20;
}

std::string evaluation_table(const std::vector<std::string>& names,
                             const std::vector<Evaluation>& evaluations) {
  const auto column = [](const MetricInfo& metric) {
    return std::max<std::size_t>(9, metric.title.size());
  };
  const Evaluation& first = evaluations.front();
  std::size_t width = 5;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string out = fmt::format("{:<{}}  {:>7}", "", width, "K");
  first.metrics.at(0).for_each(
      [&](const MetricInfo& metric, double) {
        out += fmt::format("  {:>{}}", metric.title, column(metric));
      },
      MetricUse::weighted);
  out += '\n';
  for (std::size_t e = 0; e < evaluations.size(); ++e)
    for (const MetricsAtK& at : evaluations[e].metrics) {
      out += fmt::format("{:<{}}  {:>7}", names[e], width, at.k);
      at.for_each([&](const MetricInfo& metric,
                      double value) { out += fmt::format("  {:>{}.4f}", value, column(metric)); },
                  MetricUse::weighted);
      out += '\n';
    }
  out += fmt::format("{} examples, {} without held-out units, {} units\n",
                     with_thousands(first.examples), with_thousands(first.skipped),
                     with_thousands(first.units));
  return out;
}

std::string evaluation_json(const std::vector<std::string>& names,
                            const std::vector<Evaluation>& evaluations) {
  const Evaluation& first = evaluations.front();
  JsonValue value = JsonValue::object();
  value.set("examples", first.examples).set("skipped", first.skipped).set("units", first.units);
  for (std::size_t e = 0; e < evaluations.size(); ++e) {
    JsonValue list = JsonValue::array();
    for (const MetricsAtK& at : evaluations[e].metrics) {
      JsonValue one = JsonValue::object().set("K", at.k);
      at.for_each(
          [&](const MetricInfo& metric, double x) { one.set(std::string(metric.title), x); },
          MetricUse::weighted);
      list.push(one);
    }
    value.set(names[e], list);
  }
  return value.text();
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
    values.for_each([&](const MetricInfo& metric, double value) {
      if (!std::isnan(value)) visit(metric, value);
    });
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
