// SPDX-License-Identifier: Apache-2.0
// Ranking metrics of many examples.
#include "src/engine/predict/metrics.h"

#include "norn/base/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

template <typename Metric>
class MeanOfExamples {
 public:
  MeanOfExamples(Index /*units*/, Index /*ranked*/) {}
  void add(const RankedExample& example) {
    const double value = Metric::of_example(example);
    is_computed_ = is_computed_ && !std::isnan(value);
    if (is_computed_) sum_.add(value);
  }
  double value(Index examples) const {
    const bool is_known = is_computed_ && (examples > 0 || Metric::info.use != MetricUse::asked);
    if (!is_known) return std::numeric_limits<double>::quiet_NaN();
    return examples == 0 ? 0.0 : sum_.value() / double(examples);
  }

 private:
  FixedSum sum_;
  bool is_computed_ = true;
};

template <typename Metric>
struct TotalOf {
  using Type = MeanOfExamples<Metric>;
};
template <typename Metric>
requires requires {
  typename Metric::Total;
}
struct TotalOf<Metric> {
  using Type = typename Metric::Total;
};

template <typename List>
struct TotalsOf;
template <typename... Metrics>
struct TotalsOf<MetricList<Metrics...>> {
  using Type = std::tuple<typename TotalOf<Metrics>::Type...>;
  static Type make(Index units, Index ranked) {
    return {typename TotalOf<Metrics>::Type(units, ranked)...};
  }
};
using AllTotals = TotalsOf<RankingMetricsList>;

template <typename Metric>
double value_of(const RankedExample& example) {
  if constexpr (std::is_same_v<typename TotalOf<Metric>::Type, MeanOfExamples<Metric>>)
    return Metric::of_example(example);
  else
    return std::numeric_limits<double>::quiet_NaN();
}

template <typename... Metrics>
MetricsAtK values_of(const RankedExample& example, MetricList<Metrics...> /*all*/) {
  return {example.k, {value_of<Metrics>(example)...}};
}

}  // namespace

struct RankingMetrics::Totals {
  AllTotals::Type metrics;
};

RankingMetrics::RankingMetrics(std::vector<Index> ks, Index units, Index ranked)
    : ks_(std::move(ks)), units_(units) {
  require(units >= 1 && ranked >= 1, "RankingMetrics: the catalogue is empty");
  for (Index k : ks_) {
    require(k >= 1, "RankingMetrics: every K must be at least 1");
    totals_.push_back({AllTotals::make(units, ranked)});
  }
}

RankingMetrics::~RankingMetrics() = default;

void RankingMetrics::set_gains(std::vector<double> gains) {
  require(Index(gains.size()) == units_, "RankingMetrics: every unit needs a gain");
  unit_gains_ = std::move(gains);
}

void RankingMetrics::set_information(std::vector<double> bits) {
  require(Index(bits.size()) == units_, "RankingMetrics: every unit needs its bits");
  unit_information_ = std::move(bits);
}

void RankingMetrics::set_similarity(std::shared_ptr<const UnitSimilarity> similarity) {
  require(!similarity || similarity->units() == units_,
          "RankingMetrics: every unit needs its examples");
  similarity_ = std::move(similarity);
}

void RankingMetrics::watch(std::function<void(Index, const MetricsAtK&)> take) {
  watcher_ = std::move(take);
}

// The ranks, from 1, of held-out units.
void RankingMetrics::find_hits(std::span<const Index> ranked) {
  hit_ranks_.clear();
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    require(ranked[i] >= 0 && ranked[i] < units_,
            "RankingMetrics: a unit is outside of the catalogue");
    if (std::ranges::binary_search(held_out_, Column(ranked[i])))
      hit_ranks_.push_back(Index(i) + 1);
  }
}

void RankingMetrics::add(std::span<const Index> ranked, std::span<const Column> held_out,
                         Index others) {
  if (held_out.empty()) {
    ++skipped_;
    return;
  }
  ++evaluated_;
  if (ks_.empty()) return;
  // A unit that is listed twice is one held-out unit.
  held_out_.clear();
  std::ranges::unique_copy(held_out, std::back_inserter(held_out_));
  require(unit_gains_.empty() || Index(held_out_.back()) < units_,
          "RankingMetrics: a held-out unit is outside of the catalogue and has no gain");
  const auto first = [](const auto& values, Index count) {
    return std::span(values).first(std::min(std::size_t(count), values.size()));
  };
  find_hits(first(ranked, std::ranges::max(ks_)));
  rank_gains_.grow(Index(held_out_.size()));
  if (similarity_)
    similarity_->to_those_before(first(ranked, std::ranges::max(ks_)), similarity_workspace_,
                                 similarities_);
  for (std::size_t at = 0; at < ks_.size(); ++at) {
    const Index k = ks_[at];
    const auto end = std::ranges::upper_bound(hit_ranks_, k);
    const RankedExample example{k,         first(ranked, k),  {hit_ranks_.begin(), end},
                                held_out_, rank_gains_,       unit_gains_,
                                others,    unit_information_, similarities_};
    std::apply([&](auto&... totals) { (totals.add(example), ...); }, totals_[at].metrics);
    if (watcher_) watcher_(evaluated_ + skipped_ - 1, values_of(example, RankingMetricsList()));
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

std::vector<double> self_information(std::span<const Index> counts, Index examples) {
  std::vector<double> bits;
  for (const Index count : counts)
    bits.push_back(std::log2(double(examples) / double(std::max<Index>(1, count))));
  return bits;
}

std::vector<MetricsAtK> RankingMetrics::result() const {
  std::vector<MetricsAtK> results;
  for (std::size_t at = 0; at < ks_.size(); ++at)
    results.push_back({ks_[at], std::apply(
                                    [&](const auto&... totals) {
                                      return decltype(MetricsAtK::values){
                                          totals.value(evaluated_)...};
                                    },
                                    totals_[at].metrics)});
  return results;
}

}  // namespace norn
