// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/metric.h"

#include <functional>
#include <span>
#include <vector>

/// Ranking metrics of many examples, full ranking.
namespace norn {

/// Gathers the metrics of many examples; sums do not depend on their order.
class RankingMetrics {
 public:
  /// `units`: size of the catalogue, for coverage.
  RankingMetrics(std::vector<Index> ks, Index units);
  ~RankingMetrics();
  RankingMetrics(const RankingMetrics&) = delete;
  RankingMetrics& operator=(const RankingMetrics&) = delete;
  /// One example: its ranked units, best first (at least max K where there are as many), and its
  /// held-out units, ascending. Examples without held-out units are counted but do not enter the
  /// means.
  void add(std::span<const Index> ranked, std::span<const Column> held_out);
  /// What a hit of each unit counts, for the precision that is weighted by propensities. Comes
  /// before the first example.
  void set_gains(std::vector<double> gains);
  /// Calls `take` with the values of each example that is added and not skipped, for every K; its
  /// number counts all that were added, from 0. What is no mean over examples is NaN.
  void watch(std::function<void(Index example, const MetricsAtK& values)> take);
  std::vector<MetricsAtK> result() const;
  Index examples() const { return evaluated_; }
  Index skipped() const { return skipped_; }

 private:
  struct Totals;  // of all metrics at one K
  void find_hits(std::span<const Index> ranked);

  std::vector<Index> ks_;
  std::vector<Totals> totals_;
  RankGains rank_gains_;
  std::vector<double> unit_gains_;  // by unit, or empty
  std::function<void(Index, const MetricsAtK&)> watcher_;
  Index units_;
  Index evaluated_ = 0;
  Index skipped_ = 0;
  // Of the example that was added last.
  std::vector<Column> held_out_;
  std::vector<Index> hit_ranks_;
};

/// 1 / propensity of every unit, by how many of the `examples` of the training data have it: 1 + C
/// * (count + b)^-a with C = (ln(examples) - 1) * (b + 1)^a (Jain et al., KDD 2016). Units that are
/// rarely seen count more. Throws DataError for fewer than 3 examples.
std::vector<double> inverse_propensities(std::span<const Index> counts, Index examples, double a,
                                         double b);

}  // namespace norn
