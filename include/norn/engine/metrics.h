// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"

#include <span>
#include <vector>

/// Ranking metrics, full ranking. docs/metrics.md defines them; tests/golden holds an independent
/// NumPy version.
namespace norn {

/// Means over the examples with held-out units, for one K.
struct MetricsAtK {
  Index k = 0;
  double recall = 0.0;       ///< hits / held-out units
  double precision = 0.0;    ///< hits / K
  double ndcg = 0.0;         ///< DCG / ideal DCG over min(K, held-out units)
  double map = 0.0;          ///< mean of precision at each hit, over min(K, held-out units)
  double mrr = 0.0;          ///< 1 / rank of the first hit, 0 without one
  double hit_rate = 0.0;     ///< 1 when there is a hit
  double coverage = 0.0;     ///< share of all units that were ever recommended
  double ndcg_of_all = 0.0;  ///< DCG / ideal DCG over all held-out units, as DSSTNE's
};

/// Gathers the metrics of many examples; sums do not depend on their order.
class RankingMetrics {
 public:
  /// `units`: size of the catalogue, for coverage.
  RankingMetrics(std::vector<Index> ks, Index units);
  /// One example: its ranked units, best first (at least max K where there are as many), and its
  /// held-out units, ascending. Examples without held-out units are counted but do not enter the
  /// means.
  void add(std::span<const Index> ranked, std::span<const Column> held_out);
  std::vector<MetricsAtK> result() const;
  Index examples() const { return evaluated_; }
  Index skipped() const { return skipped_; }

 private:
  struct Sums {
    FixedSum recall, precision, ndcg, ndcg_of_all, map, mrr, hit_rate;
    std::vector<bool> recommended;
    Index distinct = 0;
  };
  std::vector<Index> ks_;
  std::vector<Sums> sums_;
  Index units_;
  Index evaluated_ = 0;
  Index skipped_ = 0;
};

}  // namespace norn
