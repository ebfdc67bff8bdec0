// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/metric.h"

#include <string>
#include <vector>

/// What decides which of a run's models is the best.
namespace norn {

/// A metric at K, or the loss, of which less is better.
struct WatchedMetric {
  std::string name;                    ///< "ndcg@20", "loss"
  const MetricInfo* metric = nullptr;  ///< of kMetrics; null: the loss
  Index k = 0;

  bool is_loss() const { return metric == nullptr; }
  /// Whether single examples have a value of it.
  bool has_examples() const { return metric && kAreMeans[place()]; }
  /// Of the metric in kMetrics.
  std::size_t place() const { return std::size_t(metric - kMetrics.data()); }
  /// Of a validation, whose metrics hold K.
  double value_of(const std::vector<MetricsAtK>& metrics, double cost) const;
  /// Whether a value is better than another by more than `min_delta`.
  bool is_better(double value, double than, double min_delta) const;
};

/// Reads "ndcg@20" or "loss", in any case; a metric has its name or its title. Throws UsageError
/// naming the metrics that there are.
WatchedMetric parse_watched_metric(const std::string& text);

/// Reads "10,20,100". Throws UsageError.
std::vector<Index> parse_metrics_at(const std::string& text);

}  // namespace norn
