// SPDX-License-Identifier: Apache-2.0
// Evaluation: a pass over held-out data, ranking every example's units.
#include "src/engine/predict/evaluator.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/data/feature_counts.h"
#include "src/engine/data/sparse_rows.h"
#include "src/engine/predict/metrics.h"
#include "src/engine/predict/predictor.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace norn {
namespace {

// Calls take(column) for what a row holds; a value of 0 is nothing.
template <typename Take>
void for_row(const CsrView& from, Index r, const Take& take) {
  for (RowOffset i = from.row_begin[r]; i < from.row_begin[r + 1]; ++i)
    if (from.value == nullptr || from.value[i] != 0.0f) take(from.column[i]);
}

// The data set bound to a layer, of those that the binding opened in the order of the layers.
// `sparse`: it has to be.
const DatasetInfo& target_info(const NetworkDescriptor& network, const DataBinding& data, int layer,
                               bool sparse) {
  const std::string& name = network.layers[std::size_t(layer)].dataset;
  const DatasetInfo* found = nullptr;
  for (const Dataset* set : data.sets())
    if (set->info().name == name) found = &set->info();
  require(found, "evaluate: the layer's data set is not open");
  if (sparse && !found->gives_sparse_batches())
    throw DataError(fmt::format(
        "{}: data set \"{}\" is dense, but ranking metrics need the held-out units of each "
        "example as a sparse set",
        found->file.string(), found->name));
  return *found;
}

// One pass over the data; the ranking of a batch is left to `rank`.
class Evaluator {
 public:
  using Rank = std::function<void(const BoundBatch& batch, const CsrView& excluded,
                                  const std::function<void(Index, std::span<const Index>)>& take)>;

  using Cost = std::function<FixedSum(const BoundBatch& batch)>;

  Evaluator(const NetworkDescriptor& network, const DataBinding& data,
            const EvaluationSettings& settings)
      : network_(network), data_(data), settings_(settings) {
    const DatasetInfo& target =
        target_info(network, data, settings.output_layer, !settings.ks.empty());
    target_ = &target;
    units_ = settings.units > 0 ? settings.units : target.width();
    const LayerDescriptor& layer = network.layers[std::size_t(settings.output_layer)];
    if (units_ > layer.units())
      throw DataError(
          fmt::format("layer \"{}\": {} units are to be ranked, but it has {}; evaluate with the "
                      "feature index of the data that the model was made for",
                      layer.name, units_, layer.units()));
    for (const Dataset* set : settings.also_seen) check_seen(set->info());
    count_ranked();
  }

  Index units() const { return units_; }
  // Whether a unit is ranked, of those below units().
  bool is_allowed(Column unit) const {
    return unit >= settings_.allowed.size() || settings_.allowed[unit] != 0;
  }

  /// `rank` and `cost` may be empty.
  Evaluation run(Index batch, std::vector<BatchSource> sets, const Rank& rank,
                 const Cost& cost = {}) {
    RankingMetrics metrics(settings_.ks, units_, ranked_);
    if (!settings_.gains.empty()) metrics.set_gains(settings_.gains);
    if (!settings_.information.empty()) metrics.set_information(settings_.information);
    metrics.set_similarity(settings_.similarity);
    metrics.watch(settings_.on_example);
    FixedSum total;
    const std::size_t bound_sets = sets.size();
    for (Dataset* set : settings_.also_seen) sets.emplace_back(set);
    const BatchOrder order(data_.examples(), batch, false, 0);
    BatchLoader loader(sets, order, 0, 0, 1);
    Index done = 0;
    while (const LoadedBatch* loaded = loader.next()) {
      const BoundBatch bound = data_.bind(*loaded);
      if (rank) {
        gather(bound, *loaded, bound_sets);
        rank(bound, excluded_.view(units_), [&](Index r, std::span<const Index> ranked) {
          metrics.add(ranked, held_out_.columns(r), settings_.with_auc ? others(r) : -1);
          if (settings_.on_ranked) settings_.on_ranked(ranked, held_out_.columns(r));
        });
      }
      if (cost) total.add(cost(bound));
      done += bound.examples;
      if (settings_.on_batch) settings_.on_batch(done);
    }
    if (rank && metrics.examples() == 0) fail_without_held_out();
    if (!total.is_finite())
      throw DivergenceError(fmt::format(
          "the cost of all {} examples is beyond 2^62; the network has diverged: lower the "
          "learning rate, or the examples are far from those that it is trained on",
          done));
    return {metrics.result(),  ranked_, metrics.examples(),
            metrics.skipped(), hidden_, total.value() / double(data_.examples())};
  }

 private:
  void count_ranked() {
    require(settings_.allowed.empty() || Index(settings_.allowed.size()) >= units_,
            "evaluate: the allowed units end before those that are ranked do");
    ranked_ = 0;
    for (Index unit = 0; unit < units_; ++unit) ranked_ += is_allowed(Column(unit));
  }

  [[noreturn]] void fail_without_held_out() const {
    if (ranked_ < units_)
      throw DataError(fmt::format(
          "{} holds nothing to be found: no example of it has any of the {} units that are ranked; "
          "name others, or rank all",
          place(*target_), with_thousands(ranked_)));
    throw DataError(
        fmt::format("{} holds nothing to be found: every example of it is empty, or all that is "
                    "in it is unknown to the model, as new items are before they are added; use "
                    "the held-out part of a split",
                    place(*target_)));
  }

  void check_seen(const DatasetInfo& info) const {
    if (info.examples != data_.examples())
      throw ShapeError(fmt::format(
          "evaluate: data set \"{}\" of units that are seen has {} examples, expected {}",
          info.name, info.examples, data_.examples()));
  }

  // Candidates of an example that are not held out.
  Index others(Index r) const {
    const std::span<const Column> known = excluded_.columns(r);
    const auto is_ranked = [&](Column unit) { return Index(unit) < units_ && is_allowed(unit); };
    Index count = ranked_ - Index(std::ranges::count_if(known, is_ranked));
    for (const Column unit : held_out_.columns(r))
      count -= is_ranked(unit) && !std::ranges::binary_search(known, unit);
    return count;
  }

  bool shares_units(const std::string& set) const {
    for (const Dataset* one : data_.sets())
      if (one->info().name == set) return one->info().shares_units_with(*target_);
    return false;
  }

  // The known units of every example, ascending, and its held-out ones.
  void gather(const BoundBatch& bound, const LoadedBatch& loaded, std::size_t bound_sets) {
    std::vector<const HostBatch*> seen;
    for (std::size_t i = 0; i < network_.layers.size(); ++i) {
      const HostBatch* batch = bound.of_layer[i];
      const bool input = network_.layers[i].kind == LayerKind::input;
      if (settings_.seen == SeenUnits::leave_out && input && batch && batch->is_sparse &&
          shares_units(network_.layers[i].dataset))
        seen.push_back(batch);
    }
    for (std::size_t i = bound_sets; i < loaded.sets.size(); ++i) seen.push_back(&loaded.sets[i]);
    const CsrView target = bound.of_layer[std::size_t(settings_.output_layer)]->csr();
    excluded_.clear();
    held_out_.clear();
    for (Index r = 0; r < bound.examples; ++r) {
      for (const HostBatch* batch : seen)
        for_row(batch->csr(), r, [&](Column unit) { excluded_.add(unit); });
      excluded_.end_row();
      const std::span<const Column> known = excluded_.columns(r);
      const auto is_known = [&](Column unit) { return std::ranges::binary_search(known, unit); };
      for_row(target, r, [&](Column unit) {
        if (is_allowed(unit) && (!settings_.unseen_only || !is_known(unit))) held_out_.add(unit);
      });
      held_out_.end_row();
      for (Column unit : held_out_.columns(r)) hidden_ += is_known(unit);
    }
  }

  const NetworkDescriptor& network_;
  const DataBinding& data_;
  const EvaluationSettings& settings_;
  const DatasetInfo* target_ = nullptr;
  Index units_ = 0;
  Index ranked_ = 0;  // of these, those that are allowed
  Index hidden_ = 0;
  SparseRows excluded_;
  SparseRows held_out_;
};

Index largest(const std::vector<Index>& ks) {
  require(!ks.empty(), "evaluate: no K is given");
  return *std::max_element(ks.begin(), ks.end());
}

std::vector<Index> popularity_order(Dataset& training, Index units) {
  const std::vector<Index> count = count_units(training, units);
  std::vector<Index> order(static_cast<std::size_t>(units));
  std::iota(order.begin(), order.end(), Index(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return count[std::size_t(a)] > count[std::size_t(b)]; });
  return order;
}

}  // namespace

std::vector<Index> count_units(Dataset& training, Index units) {
  if (!training.info().gives_sparse_batches())
    throw DataError(
        fmt::format("{} is dense; popularity counts sparse entries", place(training.info())));
  return count_features(training, units);
}

Evaluation evaluate(Network& network, const DataBinding& data, const EvaluationSettings& settings) {
  Evaluator evaluator(network.descriptor(), data, settings);
  if (settings.ks.empty())
    return evaluator.run(network.batch(), data.sources_for(network), {},
                         settings.with_cost ? Evaluator::Cost([&](const BoundBatch& batch) {
                           return network.cost(batch);
                         })
                                            : Evaluator::Cost());
  Predictor predictor(network, settings.output_layer, largest(settings.ks), evaluator.units());
  FixedSum cost_of_ranked;  // of the batch that was ranked last
  return evaluator.run(
      network.batch(), data.sources_for(network),
      [&](const BoundBatch& batch, const CsrView& excluded, const auto& take) {
        ScoreFilter filter{excluded, {}, {}};
        if (!settings.allowed.empty())
          filter.allowed = {settings.allowed.data(), evaluator.units()};
        const TopK& best = settings.with_cost
                               ? predictor.predict_with_cost(batch, filter, cost_of_ranked)
                               : predictor.predict(batch, filter);
        for (Index r = 0; r < batch.examples; ++r)
          take(r, {best.unit.view().row(r), std::size_t(best.count.data()[r])});
      },
      settings.with_cost ? Evaluator::Cost([&](const BoundBatch&) { return cost_of_ranked; })
                         : Evaluator::Cost());
}

Evaluation evaluate_popularity(const Network& network, const DataBinding& data, Dataset& training,
                               const EvaluationSettings& settings) {
  Evaluator evaluator(network.descriptor(), data, settings);
  const std::vector<Index> order = popularity_order(training, evaluator.units());
  const auto longest = std::size_t(largest(settings.ks));
  std::vector<Index> ranked;
  return evaluator.run(network.batch(), data.sources(),
                       [&](const BoundBatch& batch, const CsrView& excluded, const auto& take) {
                         for (Index r = 0; r < batch.examples; ++r) {
                           const Column* first = excluded.column + excluded.row_begin[r];
                           const Column* last = excluded.column + excluded.row_begin[r + 1];
                           ranked.clear();
                           for (std::size_t i = 0; i < order.size() && ranked.size() < longest; ++i)
                             if (evaluator.is_allowed(Column(order[i])) &&
                                 !std::binary_search(first, last, Column(order[i])))
                               ranked.push_back(order[i]);
                           take(r, ranked);
                         }
                       });
}

}  // namespace norn
