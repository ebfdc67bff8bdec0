// SPDX-License-Identifier: Apache-2.0
// Ranking metrics.
#include "norn/engine/metrics.h"

#include "norn/base/error.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

namespace norn {
namespace {

// 1 / log2(rank + 1), the gain of a hit at rank 1, 2, 3 ...
double discount(Index rank) {
  return 1.0 / std::log2(double(rank + 1));
}

double ideal_gain(Index hits) {
  double gain = 0.0;
  for (Index rank = 1; rank <= hits; ++rank) gain += discount(rank);
  return gain;
}

}  // namespace

RankingMetrics::RankingMetrics(std::vector<Index> ks, Index units)
    : ks_(std::move(ks)), sums_(ks_.size()), units_(units) {
  require(units >= 1, "RankingMetrics: the catalogue is empty");
  for (Index k : ks_) require(k >= 1, "RankingMetrics: every K must be at least 1");
  for (Sums& sums : sums_) sums.recommended.assign(std::size_t(units), false);
}

void RankingMetrics::add(std::span<const Index> ranked, std::span<const Column> held_out) {
  if (held_out.empty()) {
    ++skipped_;
    return;
  }
  ++evaluated_;
  if (!gains_.empty()) add_gains(ranked, held_out);
  // A unit that is listed twice is one held-out unit.
  Index relevant = 1;
  for (std::size_t i = 1; i < held_out.size(); ++i) relevant += held_out[i] != held_out[i - 1];

  const double gain_of_all = ideal_gain(relevant);
  for (std::size_t at = 0; at < ks_.size(); ++at) {
    const Index k = ks_[at];
    const Index length = std::min(k, Index(ranked.size()));
    Sums& sums = sums_[at];
    Index hits = 0;
    Index first_hit = 0;
    double gain = 0.0;
    double precisions = 0.0;
    for (Index rank = 1; rank <= length; ++rank) {
      const Index unit = ranked[std::size_t(rank - 1)];
      require(unit >= 0 && unit < units_, "RankingMetrics: a unit is outside of the catalogue");
      if (!sums.recommended[std::size_t(unit)]) {
        sums.recommended[std::size_t(unit)] = true;
        ++sums.distinct;
      }
      if (!std::binary_search(held_out.begin(), held_out.end(), Column(unit))) continue;
      ++hits;
      if (first_hit == 0) first_hit = rank;
      gain += discount(rank);
      precisions += double(hits) / double(rank);
    }
    const Index ideal = std::min(k, relevant);
    sums.recall.add(double(hits) / double(relevant));
    sums.precision.add(double(hits) / double(k));
    sums.ndcg.add(gain / ideal_gain(ideal));
    sums.ndcg_of_all.add(gain / gain_of_all);
    sums.map.add(precisions / double(ideal));
    sums.mrr.add(first_hit == 0 ? 0.0 : 1.0 / double(first_hit));
    sums.hit_rate.add(hits > 0 ? 1.0 : 0.0);
  }
}

void RankingMetrics::set_gains(std::vector<double> gains) {
  require(Index(gains.size()) == units_, "RankingMetrics: every unit needs a gain");
  gains_ = std::move(gains);
}

void RankingMetrics::add_gains(std::span<const Index> ranked, std::span<const Column> held_out) {
  std::vector<double> best;
  for (std::size_t i = 0; i < held_out.size(); ++i)
    if (i == 0 || held_out[i] != held_out[i - 1]) best.push_back(gains_.at(held_out[i]));
  std::sort(best.begin(), best.end(), std::greater<>());
  for (std::size_t at = 0; at < ks_.size(); ++at) {
    const auto k = std::size_t(ks_[at]);
    for (std::size_t i = 0; i < std::min(k, ranked.size()); ++i)
      if (std::binary_search(held_out.begin(), held_out.end(), Column(ranked[i])))
        sums_[at].gains.add(gains_[std::size_t(ranked[i])]);
    for (std::size_t i = 0; i < std::min(k, best.size()); ++i) sums_[at].best_gains.add(best[i]);
  }
}

std::vector<double> inverse_propensities(std::span<const Index> counts, Index examples, double a,
                                         double b) {
  if (examples < 3)
    throw DataError(fmt::format(
        "propensities need the counts of at least 3 training examples, and there are {}",
        examples));
  const double c = (std::log(double(examples)) - 1.0) * std::pow(b + 1.0, a);
  std::vector<double> inverse;
  for (const Index count : counts) inverse.push_back(1.0 + c * std::pow(double(count) + b, -a));
  return inverse;
}

std::vector<MetricsAtK> RankingMetrics::result() const {
  std::vector<MetricsAtK> results;
  const auto mean = [this](const FixedSum& sum) {
    return evaluated_ == 0 ? 0.0 : sum.value() / double(evaluated_);
  };
  for (std::size_t at = 0; at < ks_.size(); ++at) {
    const Sums& sums = sums_[at];
    MetricsAtK metrics;
    metrics.k = ks_[at];
    metrics.recall = mean(sums.recall);
    metrics.precision = mean(sums.precision);
    metrics.ndcg = mean(sums.ndcg);
    metrics.ndcg_of_all = mean(sums.ndcg_of_all);
    metrics.map = mean(sums.map);
    metrics.mrr = mean(sums.mrr);
    metrics.hit_rate = mean(sums.hit_rate);
    const double best = sums.best_gains.value();
    if (!gains_.empty())
      metrics.propensity_precision = best > 0.0 ? sums.gains.value() / best : 0.0;
    metrics.coverage = double(sums.distinct) / double(units_);
    results.push_back(metrics);
  }
  return results;
}

}  // namespace norn
