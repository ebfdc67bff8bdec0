// SPDX-License-Identifier: Apache-2.0
// Metrics as a table and as JSON.
#include "norn/base/text.h"
#include "tools/evaluation/evaluation_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace norn::tools {
namespace {

using Entry = std::pair<const char*, double MetricsAtK::*>;
constexpr std::array<Entry, 7> kMetrics = {{{"Recall", &MetricsAtK::recall},
                                            {"Precision", &MetricsAtK::precision},
                                            {"NDCG", &MetricsAtK::ndcg},
                                            {"MAP", &MetricsAtK::map},
                                            {"MRR", &MetricsAtK::mrr},
                                            {"HitRate", &MetricsAtK::hit_rate},
                                            {"Coverage", &MetricsAtK::coverage}}};

bool has_propensities(const std::vector<Evaluation>& evaluations) {
  const auto& metrics = evaluations.front().metrics;
  return !metrics.empty() && metrics.front().propensity_precision.has_value();
}

}  // namespace

std::string evaluation_table(const std::vector<std::string>& names,
                             const std::vector<Evaluation>& evaluations) {
  std::size_t width = 5;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string out = fmt::format("{:<{}}  {:>7}", "", width, "K");
  for (const Entry& metric : kMetrics) out += fmt::format("  {:>9}", metric.first);
  if (has_propensities(evaluations)) out += fmt::format("  {:>9}", "PSP");
  out += '\n';
  for (std::size_t e = 0; e < evaluations.size(); ++e)
    for (const MetricsAtK& at : evaluations[e].metrics) {
      out += fmt::format("{:<{}}  {:>7}", names[e], width, at.k);
      for (const Entry& metric : kMetrics) out += fmt::format("  {:>9.4f}", at.*metric.second);
      if (at.propensity_precision) out += fmt::format("  {:>9.4f}", *at.propensity_precision);
      out += '\n';
    }
  const Evaluation& first = evaluations.front();
  out += fmt::format("{} examples, {} without held-out units, {} units\n",
                     with_thousands(first.examples), with_thousands(first.skipped),
                     with_thousands(first.units));
  return out;
}

std::string evaluation_json(const std::vector<std::string>& names,
                            const std::vector<Evaluation>& evaluations) {
  const Evaluation& first = evaluations.front();
  std::string out = fmt::format("{{\n  \"examples\": {},\n  \"skipped\": {},\n  \"units\": {}",
                                first.examples, first.skipped, first.units);
  for (std::size_t e = 0; e < evaluations.size(); ++e) {
    out += fmt::format(",\n  \"{}\": [", names[e]);
    for (std::size_t i = 0; i < evaluations[e].metrics.size(); ++i) {
      const MetricsAtK& at = evaluations[e].metrics[i];
      out += fmt::format("{}\n    {{\"K\": {}", i == 0 ? "" : ",", at.k);
      for (const Entry& metric : kMetrics)
        out += fmt::format(", \"{}\": {:.17g}", metric.first, at.*metric.second);
      if (at.propensity_precision)
        out += fmt::format(", \"PSP\": {:.17g}", *at.propensity_precision);
      out += '}';
    }
    out += "\n  ]";
  }
  out += "\n}\n";
  return out;
}

}  // namespace norn::tools
