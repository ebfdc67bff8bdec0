// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/metric.h"
#include "src/engine/predict/unit_similarity.h"

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

/// Ranking metrics of many examples, full ranking.
namespace norn {

/// Gathers the metrics of many examples; sums do not depend on their order.
class RankingMetrics {
 public:
  /// `units`: size of the catalogue; `ranked`: how many of them are ranked, for coverage.
  RankingMetrics(std::vector<Index> ks, Index units, Index ranked);
  RankingMetrics(std::vector<Index> ks, Index units)
      : RankingMetrics(std::move(ks), units, units) {}
  ~RankingMetrics();
  RankingMetrics(const RankingMetrics&) = delete;
  RankingMetrics& operator=(const RankingMetrics&) = delete;
  /// One example: its ranked units, best first (at least max K where there are as many), and its
  /// held-out units, ascending. Examples without held-out units are counted but do not enter the
  /// means. `others`: RankedExample's, for the area under the curve.
  void add(std::span<const Index> ranked, std::span<const Column> held_out, Index others = -1);
  /// What a hit of each unit counts, for the precision that is weighted by propensities. Comes
  /// before the first example.
  void set_gains(std::vector<double> gains);
  /// What each unit says, for novelty, and how similar units are, for diversity; null: neither is
  /// computed. Before the first example.
  void set_information(std::vector<double> bits);
  void set_similarity(std::shared_ptr<const UnitSimilarity> similarity);
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
  std::vector<double> unit_gains_;        // by unit, or empty
  std::vector<double> unit_information_;  // the same
  std::shared_ptr<const UnitSimilarity> similarity_;
  std::function<void(Index, const MetricsAtK&)> watcher_;
  Index units_;
  Index evaluated_ = 0;
  Index skipped_ = 0;
  // Of the example that was added last.
  std::vector<Column> held_out_;
  std::vector<Index> hit_ranks_;
  std::vector<double> similarities_;
  UnitSimilarity::Workspace similarity_workspace_;
};

/// 1 / propensity of every unit, by how many of the `examples` of the training data have it: 1 + C
/// * (count + b)^-a with C = (ln(examples) - 1) * (b + 1)^a (Jain et al., KDD 2016). Units that are
/// rarely seen count more. Throws DataError for fewer than 3 examples.
std::vector<double> inverse_propensities(std::span<const Index> counts, Index examples, double a,
                                         double b);

/// log2(examples / count) of every unit: the bits of hearing that an example has it. A unit that no
/// example has counts as if one had.
std::vector<double> self_information(std::span<const Index> counts, Index examples);

}  // namespace norn
