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

/// Why units have their scores: which entries of an example's input bring them.
namespace norn::run {

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
