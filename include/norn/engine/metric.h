// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

/// The metrics of ranked lists: a struct each, in the order of RankingMetricsList at the end of the
/// file, from which the evaluator, validations, what can be watched, logs, their schema and the
/// page of a run follow. docs/user/metrics.md defines them; tests/golden holds an independent NumPy
/// version.
///
/// A metric has `info`, which says what MetricInfo lists, and one of
///   of_example(example)  its value for one example; the metric is the mean over the examples
///   Total                what is gathered over all examples, where it is no mean: made for the
///                        numbers of units and of those that are ranked, add(example),
///                        value(examples), which is NaN where the metric is not computed
namespace norn {

enum class Better { larger, smaller };

/// Who is told of a metric.
enum class MetricUse {
  always,
  asked,  ///< those who ask an evaluation for it: what it takes has to be there (RankedExample)
  dsstne  ///< those who run DSSTNE's command files
};

struct MetricInfo {
  std::string_view name;        ///< in options, logs and messages: "hit_rate"
  std::string_view title;       ///< in tables, JSON and documents: "HitRate"
  std::string_view help;        ///< what it is, in a line
  std::string_view chart = {};  ///< heading of its chart; empty: the title
  Better better = Better::larger;
  double most = 1.0;  ///< no value is larger; the least is 0
  MetricUse use = MetricUse::always;
};

/// Gains of hits by rank: 1 / log2(rank + 1), and their sums over the first ranks.
class RankGains {
 public:
  double of(Index rank) const { return 1.0 / std::log2(double(rank + 1)); }
  /// Of a list whose first `hits` ranks are hits. grow() comes before.
  double ideal(Index hits) const { return sums_[std::size_t(hits)]; }
  void grow(Index hits) {
    while (Index(sums_.size()) <= hits) sums_.push_back(sums_.back() + of(Index(sums_.size())));
  }

 private:
  std::vector<double> sums_ = {0.0};
};

/// One example and its list of one length, as metrics see it.
struct RankedExample {
  Index k = 0;                       ///< length that was asked for
  std::span<const Index> list;       ///< [<= K] its units, best first: fewer where there are fewer
  std::span<const Index> hit_ranks;  ///< [hits] from 1, ascending: where held-out units stand
  std::span<const Column> held_out;  ///< [H] ascending, each once; not empty
  const RankGains& rank_gains;
  std::span<const double> unit_gains;  ///< [units] what a hit of each counts, or empty
  /// Units that could be ranked and are not held out; negative: nobody counted them.
  Index others = -1;
  std::span<const double> unit_information;  ///< [units] bits that each says, or empty
  /// [list] of each of its units the sum of its similarities to those before it, or empty.
  std::span<const double> similarities = {};

  double hits() const { return double(hit_ranks.size()); }
  double sought() const { return double(held_out.size()); }
  /// Hits that the best list has: min(K, H).
  Index most_hits() const { return std::min(k, Index(held_out.size())); }
  double gain() const {
    double sum = 0.0;
    for (const Index rank : hit_ranks) sum += rank_gains.of(rank);
    return sum;
  }
};

namespace metric {

struct Recall {
  static constexpr MetricInfo info = {.name = "recall",
                                      .title = "Recall",
                                      .help = "share of the held-out units that are in the list"};
  static double of_example(const RankedExample& e) { return e.hits() / e.sought(); }
};

struct Precision {
  static constexpr MetricInfo info = {.name = "precision",
                                      .title = "Precision",
                                      .help = "share of the K places that held-out units have"};
  static double of_example(const RankedExample& e) { return e.hits() / double(e.k); }
};

/// Järvelin, Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 2002, with
/// gains of 0 and 1.
struct Ndcg {
  static constexpr MetricInfo info = {
      .name = "ndcg",
      .title = "NDCG",
      .help = "discounted gain of the hits, over that of min(K, held-out units) hits on top"};
  static double of_example(const RankedExample& e) {
    return e.gain() / e.rank_gains.ideal(e.most_hits());
  }
};

struct Map {
  static constexpr MetricInfo info = {
      .name = "map",
      .title = "MAP",
      .help = "sum of the precisions at the ranks of hits, over min(K, held-out units)"};
  static double of_example(const RankedExample& e) {
    double precisions = 0.0;
    double hits = 0.0;
    for (const Index rank : e.hit_ranks) precisions += ++hits / double(rank);
    return precisions / double(e.most_hits());
  }
};

struct Mrr {
  static constexpr MetricInfo info = {
      .name = "mrr", .title = "MRR", .help = "1 / rank of the first hit, 0 without one"};
  static double of_example(const RankedExample& e) {
    return e.hit_ranks.empty() ? 0.0 : 1.0 / double(e.hit_ranks.front());
  }
};

struct HitRate {
  static constexpr MetricInfo info = {.name = "hit_rate",
                                      .title = "HitRate",
                                      .help = "share of the examples with a hit",
                                      .chart = "Hit rate"};
  static double of_example(const RankedExample& e) { return e.hit_ranks.empty() ? 0.0 : 1.0; }
};

struct Coverage {
  static constexpr MetricInfo info = {
      .name = "coverage",
      .title = "Coverage",
      .help = "share of all units that are in the list of any example"};
  class Total {
   public:
    Total(Index units, Index ranked) : is_listed_(std::size_t(units)), ranked_(ranked) {}
    void add(const RankedExample& e) {
      for (const Index unit : e.list) {
        listed_ += !is_listed_[std::size_t(unit)];
        is_listed_[std::size_t(unit)] = true;
      }
    }
    double value(Index /*examples*/) const { return double(listed_) / double(ranked_); }

   private:
    std::vector<bool> is_listed_;
    Index ranked_;
    Index listed_ = 0;
  };
};

/// Recall that a list of K can bring to 1: Liang, Krishnan, Hoffman, Jebara, "Variational
/// Autoencoders for Collaborative Filtering", WWW 2018, whose Recall@R it is.
struct CappedRecall {
  static constexpr MetricInfo info = {.name = "capped_recall",
                                      .title = "CappedRecall",
                                      .help = "hits over min(K, held-out units)",
                                      .chart = "Capped recall"};
  static double of_example(const RankedExample& e) { return e.hits() / double(e.most_hits()); }
};

/// Jain, Prabhu, Varma, "Extreme Multi-label Loss Functions", KDD 2016: the gains of all hits over
/// those of the best lists that there could be, both summed over the examples.
struct PropensityPrecision {
  static constexpr MetricInfo info = {.name = "psp",
                                      .title = "PSP",
                                      .help = "precision in which rare units count more",
                                      .use = MetricUse::asked};
  class Total {
   public:
    Total(Index /*units*/, Index /*ranked*/) {}
    void add(const RankedExample& e) {
      if (e.unit_gains.empty()) return;
      is_weighted_ = true;
      for (const Index rank : e.hit_ranks)
        gains_.add(e.unit_gains[std::size_t(e.list[std::size_t(rank - 1)])]);
      best_.clear();
      for (const Column unit : e.held_out) best_.push_back(e.unit_gains[unit]);
      std::ranges::sort(best_, std::greater<>());
      for (std::size_t i = 0; i < std::size_t(e.most_hits()); ++i) best_gains_.add(best_[i]);
    }
    double value(Index /*examples*/) const {
      if (!is_weighted_) return std::numeric_limits<double>::quiet_NaN();
      const double best = best_gains_.value();
      return best > 0.0 ? gains_.value() / best : 0.0;
    }

   private:
    FixedSum gains_, best_gains_;
    std::vector<double> best_;
    bool is_weighted_ = false;
  };
};

/// The area under the ROC curve of a ranking of which K places are known: of all pairs of a
/// held-out unit and another one, those in which the held-out one stands first. Held-out units that
/// are not in the list are expected in the middle of the others that are not, as in implicit's
/// AUC@K. It is the area itself where the list has all units.
struct Auc {
  static constexpr MetricInfo info = {
      .name = "auc",
      .title = "AUC",
      .help = "share of the pairs of a held-out unit and another one that are in order",
      .use = MetricUse::asked};
  static double of_example(const RankedExample& e) {
    if (e.others < 0) return std::numeric_limits<double>::quiet_NaN();
    if (e.others == 0) return e.hit_ranks.empty() ? 0.0 : 1.0;
    const double misses = double(e.list.size()) - e.hits();
    double pairs = (double(e.others) - misses) * (e.hits() + e.sought()) / 2.0;
    double hits = 0.0;
    for (const Index rank : e.hit_ranks) pairs += misses - (double(rank) - ++hits);
    return pairs / (e.sought() * double(e.others));
  }
};

/// Zhou et al., "Solving the apparent diversity-accuracy dilemma of recommender systems", PNAS
/// 2010: the self-information of what is recommended.
struct Novelty {
  static constexpr MetricInfo info = {
      .name = "novelty",
      .title = "Novelty",
      .help = "mean self-information of the list's units in bits, more of those that few have",
      .most = std::numeric_limits<double>::infinity(),
      .use = MetricUse::asked};
  static double of_example(const RankedExample& e) {
    if (e.unit_information.empty()) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0.0;
    for (const Index unit : e.list) sum += e.unit_information[std::size_t(unit)];
    return e.list.empty() ? 0.0 : sum / double(e.list.size());
  }
};

/// Smyth, McClave, "Similarity vs. Diversity", ICCBR 2001; Ziegler et al., "Improving
/// Recommendation Lists Through Topic Diversification", WWW 2005.
struct Diversity {
  static constexpr MetricInfo info = {
      .name = "diversity",
      .title = "Diversity",
      .help =
          "1 - the mean cosine of two units of the list, by the training examples that have them",
      .use = MetricUse::asked};
  static double of_example(const RankedExample& e) {
    if (e.similarities.size() < e.list.size() || e.similarities.empty())
      return std::numeric_limits<double>::quiet_NaN();
    if (e.list.size() < 2) return 0.0;
    double sum = 0.0;
    for (std::size_t i = 0; i < e.list.size(); ++i) sum += e.similarities[i];
    const double n = double(e.list.size());
    return 1.0 - sum / (n * (n - 1.0) / 2.0);
  }
};

/// DSSTNE's: its ideal list is as long as there are held-out units.
struct NdcgOfAll {
  static constexpr MetricInfo info = {
      .name = "ndcg_of_all",
      .title = "NDCG of all",
      .help = "discounted gain of the hits, over that of all held-out units on top",
      .use = MetricUse::dsstne};
  static double of_example(const RankedExample& e) {
    return e.gain() / e.rank_gains.ideal(Index(e.held_out.size()));
  }
};

}  // namespace metric

/// Metrics that single examples have no value of: they say what their Total is of.
template <typename Metric>
concept IsOfAllExamples = requires {
  typename Metric::Total;
};

/// Metrics in the order in which they are told of.
template <typename... Metrics>
struct MetricList {
  static constexpr std::array<MetricInfo, sizeof...(Metrics)> infos = {Metrics::info...};
  /// Whether it is the mean of values of single examples.
  static constexpr std::array<bool, sizeof...(Metrics)> are_means = {!IsOfAllExamples<Metrics>...};
  /// Where a metric stands in the list.
  template <typename Metric>
  static constexpr std::size_t place_of() {
    static_assert((std::is_same_v<Metric, Metrics> || ...), "the metric is not in the list");
    std::size_t place = 0;
    bool found = false;
    ((found = found || std::is_same_v<Metric, Metrics>, place += !found), ...);
    return place;
  }
};

using RankingMetricsList =
    MetricList<metric::Recall, metric::Precision, metric::Ndcg, metric::Map, metric::Mrr,
               metric::HitRate, metric::Coverage, metric::CappedRecall, metric::PropensityPrecision,
               metric::Auc, metric::Novelty, metric::Diversity, metric::NdcgOfAll>;

inline constexpr std::span<const MetricInfo> kMetrics = RankingMetricsList::infos;
inline constexpr std::span<const bool> kAreMeans = RankingMetricsList::are_means;

/// The metrics of the examples, for one K.
struct MetricsAtK {
  Index k = 0;
  std::array<double, kMetrics.size()> values = {};  ///< in the order of kMetrics; NaN: not computed

  template <typename Metric>
  double of() const {
    return values[RankingMetricsList::place_of<Metric>()];
  }
  /// visit(info, value) for every metric that all are told of, and for the others with a value that
  /// are of `use`.
  template <typename Visit>
  void for_each(const Visit& visit, MetricUse use = MetricUse::always) const {
    for (std::size_t i = 0; i < kMetrics.size(); ++i)
      if (kMetrics[i].use == MetricUse::always ||
          (kMetrics[i].use == use && !std::isnan(values[i])))
        visit(kMetrics[i], values[i]);
  }
};

/// The names of those that all are told of, as options and logs call them.
std::vector<std::string> metric_names();

/// Their names, titles, headings, help lines, largest values, directions and whether they are means
/// over examples as a JSON array: what the page of a run, the schema of logs and searches are made
/// from.
std::string metric_reference_json();

}  // namespace norn
