// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/evaluation.h"
#include "src/engine/data/data_binding.h"
#include "src/engine/predict/unit_similarity.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

/// Ranking metrics of a network, or of plain popularity, on held-out units.
namespace norn {

struct EvaluationSettings {
  int output_layer = 0;
  std::vector<Index> ks = {10, 20, 100};  ///< none: nothing is ranked, and any target will do
  SeenUnits seen = SeenUnits::leave_out;
  bool unseen_only = false;  ///< units that are left out as seen do not count as held out
  bool with_cost = false;    ///< also the cost of the targets, of all output layers
  Index units = 0;           ///< only units below this are candidates; 0: the held-out set's width
  /// [>= units] 1 of those that are ranked and count as held out; empty: all.
  std::span<const std::uint8_t> allowed;
  std::vector<Dataset*>
      also_seen;  ///< sets whose units are left out too; their examples pair by position
  std::function<void(Index examples)> on_batch;  ///< examples done so far; may be empty
  /// RankingMetrics::watch(); may be empty.
  std::function<void(Index example, const MetricsAtK& values)> on_example;
  /// Every example with its ranked units, best first, and its held-out units; may be empty.
  std::function<void(std::span<const Index> ranked, std::span<const Column> held_out)> on_ranked;
  // For RankingMetrics, of every candidate; may be empty.
  std::vector<double> gains;
  std::vector<double> information;
  std::shared_ptr<const UnitSimilarity> similarity;
  bool with_auc = false;
};

/// Ranks all units for every example of the data, whose output sets hold the held-out units.
/// Throws DataError when the layer's data set is dense or has no held-out units, and
/// DivergenceError when the cost is not finite.
Evaluation evaluate(Network& network, const DataBinding& data, const EvaluationSettings& settings);

/// The same for the ranking by popularity: the number of examples of `training` that hold the unit,
/// ties by lowest unit.
Evaluation evaluate_popularity(const Network& network, const DataBinding& data, Dataset& training,
                               const EvaluationSettings& settings);

/// How many examples of a sparse set hold each of its first `units` units. Throws DataError for a
/// dense one.
std::vector<Index> count_units(Dataset& training, Index units);

}  // namespace norn
