// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"

#include <optional>
#include <span>
#include <vector>

/// Ranking metrics, full ranking. docs/user/metrics.md defines them; tests/golden holds an
/// independent NumPy version.
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
  std::optional<double> propensity_precision = std::nullopt;  ///< with set_gains(): see there
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
  /// What a hit of each unit counts, for the precision that is weighted by propensities: the gains
  /// of all hits over those of the best lists that there could be, both summed over the examples.
  void set_gains(std::vector<double> gains);
  std::vector<MetricsAtK> result() const;
  Index examples() const { return evaluated_; }
  Index skipped() const { return skipped_; }

 private:
  struct Sums {
    FixedSum recall, precision, ndcg, ndcg_of_all, map, mrr, hit_rate;
    FixedSum gains, best_gains;
    std::vector<bool> recommended;
    Index distinct = 0;
  };
  std::vector<Index> ks_;
  void add_gains(std::span<const Index> ranked, std::span<const Column> held_out);
  std::vector<Sums> sums_;
  std::vector<double> gains_;  // by unit, or empty
  Index units_;
  Index evaluated_ = 0;
  Index skipped_ = 0;
};

/// 1 / propensity of every unit, by how many of the `examples` of the training data have it: 1 + C
/// * (count + b)^-a with C = (ln(examples) - 1) * (b + 1)^a (Jain et al., KDD 2016). Units that are
/// rarely seen count more. Throws DataError for fewer than 3 examples.
std::vector<double> inverse_propensities(std::span<const Index> counts, Index examples, double a,
                                         double b);

}  // namespace norn
