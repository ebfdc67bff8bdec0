// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/memory_set.h"
#include "norn/engine/evaluation.h"
#include "norn/run/model.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// How well a model ranks held-out units. docs/user/metrics.md defines the metrics.
namespace norn::run {

inline constexpr Index kMostConfused = 5000;

struct EvaluateOptions {
  // Sets that the model's layers name: inputs, and the held-out units as outputs.
  std::vector<std::filesystem::path> data = {};
  std::vector<MemorySet> sets = {};
  std::int64_t memory_bytes = std::int64_t(8) << 30;  ///< files of more are read batch by batch

  std::string layer = {};  ///< output layer; empty: the only one, or the one named "Output"
  std::vector<Index> top = {10, 20, 100};  ///< lengths of the lists
  SeenUnits seen = SeenUnits::leave_out;
  std::vector<std::filesystem::path> exclude = {};  ///< units of these sets are left out too
  std::filesystem::path popularity = {};  ///< training data, to compare with its popularity ranking
  std::filesystem::path features = {};  ///< index of the output: units beyond it are no candidates
  /// [units] 1 of those that are ranked among themselves, 0 of others; empty: all. Held-out units
  /// that are not ranked do not count.
  std::span<const std::uint8_t> allowed = {};
  /// The same from a file: their labels, a line each, of `features` or else of the model.
  std::filesystem::path allow = {};
  /// Training data in memory instead: of the output layer's units. Nothing is compared with them.
  std::optional<MemorySet> trained_on = {};
  /// Metrics that are computed for those who ask: "auc", and with training data "novelty" and
  /// "diversity".
  std::vector<std::string> also = {};
  /// Numbers a and b of propensities, for metrics that count rare units more; with training data.
  std::optional<std::pair<double, double>> propensity = {};
  /// Also count which class the examples of each were taken for. An output layer has at most
  /// kMostConfused units then, and no example more than one.
  bool confusion = false;
  /// Examples done so far, of so many; may throw to end it.
  std::function<void(Index done, Index examples)> on_batch = {};
  /// The metrics of one example, for each K: what is no mean over examples is NaN. Examples without
  /// held-out units are counted and passed over. `ranking` is "model" or "popularity".
  std::function<void(std::string_view ranking, Index example, const MetricsAtK& values)>
      on_example = {};
};

struct EvaluationReport {
  Evaluation model;
  std::optional<Evaluation> popularity;
  std::optional<ConfusionMatrix> confusion;  ///< of the model
};

/// Every rank calls it and has the report. Throws UsageError and DataError.
EvaluationReport evaluate(Model& model, const EvaluateOptions& options);

}  // namespace norn::run
