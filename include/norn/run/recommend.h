// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/memory_set.h"
#include "norn/engine/explanation.h"
#include "norn/run/model.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// The best units of an output layer for examples, from files or memory, and why.
namespace norn::run {

struct RecommendOptions {
  // What is known of the examples: sets that input layers name.
  std::vector<std::filesystem::path> inputs = {};
  std::vector<MemorySet> sets = {};
  std::int64_t memory_bytes = std::int64_t(8) << 30;  ///< files of more are read batch by batch

  Index k = 10;               ///< units of an example
  std::string layer = {};     ///< output layer; empty: the only one, or the one named "Output"
  Index units = 0;            ///< only units below this are candidates; 0: all that have labels
  bool exclude_seen = false;  ///< leaves out what an example's own sparse inputs hold
  /// By example, units that are left out. Empty rows: none.
  MemorySet excluded = {};
  /// By example, units whose scores are multiplied by these values.
  MemorySet factors = {};
  std::span<const std::uint8_t> allowed = {};  ///< [units] 1 where allowed; empty: all are
  /// Examples done so far, of so many; may throw to end it.
  std::function<void(Index done, Index examples)> on_batch = {};
};

/// Lists of k, best first. Where an example has fewer candidates, -1 and NaN fill its list.
struct Recommendations {
  Index examples = 0;
  Index k = 0;
  std::vector<Index> units;   ///< [examples x k]
  std::vector<float> scores;  ///< [examples x k]
};

/// Exact for every k; ties by lowest unit; the same on any number of ranks, and on every rank.
/// Throws UsageError for settings that the model does not fit, and DataError for such data.
Recommendations recommend(Model& model, const RecommendOptions& options);

/// The activations of a hidden layer, [examples x units]: embeddings. Options that choose units
/// have no effect.
struct Embeddings {
  Index examples = 0;
  Index units = 0;
  std::vector<float> values;
};
Embeddings embed(Model& model, const RecommendOptions& options);

struct ExplainOptions {
  // What is known of the examples: sets that input layers name, at least one of them sparse.
  std::vector<std::filesystem::path> inputs = {};
  std::vector<MemorySet> sets = {};
  std::int64_t memory_bytes = std::int64_t(8) << 30;  ///< files of more are read batch by batch

  std::string layer = {};  ///< output layer; empty: the only one, or the one named "Output"
  /// [examples x any number], row by row: units of the output layer whose scores are explained, -1
  /// for none.
  std::span<const Index> units = {};
  Index n = 5;  ///< entries of each explanation, at most
  /// Examples done so far, of so many; may throw to end it.
  std::function<void(Index done, Index examples)> on_batch = {};
};

/// For each of `units` the exact effect of leaving out an entry of its example: the score that
/// recommend() gives, less the score of the example without this entry, by running the network on
/// both. Of each example the `n` entries with the largest effects by size, of equal ones the lower
/// input and unit first. An entry that is the unit itself is one like others. The same on any
/// number of ranks, and on every rank. Throws UsageError for settings that the model does not fit
/// and where all inputs are dense, and DataError for such data.
std::vector<Explanation> explain(Model& model, const ExplainOptions& options);

}  // namespace norn::run
