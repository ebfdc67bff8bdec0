// SPDX-License-Identifier: Apache-2.0
// Names of metrics.
#include "src/engine/train/watched_metric.h"

#include "norn/base/error.h"
#include "src/base/text.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
double WatchedMetric::value_of(const std::vector<MetricsAtK>& metrics, double cost) const {
  if (is_loss()) return cost;
  const auto found =
      std::find_if(metrics.begin(), metrics.end(), [this](const auto& at) { return at.k == k; });
  require(found != metrics.end(), "WatchedMetric: the validation does not hold its K");
  return found->values[place()];
}

bool WatchedMetric::is_better(double value, double than, double min_delta) const {
  const bool less = is_loss() || metric->better == Better::smaller;
  return less ? value < than - min_delta : value > than + min_delta;
}

WatchedMetric parse_watched_metric(const std::string& text) {
  const std::string lower = lower_case(text);
  if (lower == "loss") return {lower, nullptr, 0};
  const std::size_t at = lower.find('@');
  const std::string name = lower.substr(0, at);
  const auto found = std::ranges::find_if(kMetrics, [&](const MetricInfo& metric) {
    return metric.use == MetricUse::always &&
           (name == metric.name || name == lower_case(std::string(metric.title)));
  });
  const auto k = at == std::string::npos ? std::nullopt : parse_integer(lower.substr(at + 1));
  if (found == kMetrics.end() || !k || *k < 1) {
    const std::string hint =
        found == kMetrics.end() ? did_you_mean(name, metric_names()) : std::string();
    throw UsageError(
        fmt::format("\"{}\" is no metric to watch{} loss, or one of {} with its K, such as ndcg@20",
                    text, hint.empty() ? "; write" : hint + " Write", join(metric_names())));
  }
  return {fmt::format("{}@{}", found->name, *k), &*found, Index(*k)};
}

std::vector<Index> parse_metrics_at(const std::string& text) {
  std::vector<Index> ks;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const auto value = parse_integer(text.substr(at, end - at));
    if (!value || *value < 1)
      throw UsageError(
          fmt::format("\"{}\" is no list of numbers from 1 on; write for example 10,20,100", text));
    ks.push_back(*value);
    at = end + 1;
  }
  return ks;
}

}  // namespace norn
