// SPDX-License-Identifier: Apache-2.0
// Cosines of units: the training set by unit, and a list's sum by example.
#include "src/engine/predict/unit_similarity.h"

#include "norn/base/error.h"
#include "src/data/feature_counts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace norn {
namespace {

constexpr Index kPart = Index(1) << 12;  // examples that are read at a time

}  // namespace

UnitSimilarity::UnitSimilarity(Dataset& training, Index units) {
  examples_ = training.info().examples;
  require(examples_ <= Index(std::numeric_limits<std::uint32_t>::max()),
          "UnitSimilarity: examples are numbered in 32 bits");
  const std::vector<std::int64_t> counts = count_features(training, units);
  begin_.assign(1, 0);
  for (const std::int64_t count : counts) begin_.push_back(begin_.back() + count);
  example_.resize(std::size_t(begin_.back()));
  std::vector<Index> next(begin_.begin(), begin_.end() - 1);
  std::vector<Index> examples;
  HostBatch batch;
  for (Index first = 0; first < examples_; first += kPart) {
    examples.resize(std::size_t(std::min(kPart, examples_ - first)));
    std::iota(examples.begin(), examples.end(), first);
    training.gather(examples, batch);
    const CsrView x = batch.csr();
    for (Index r = 0; r < x.rows; ++r)
      for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i) {
        const bool is_again = i > x.row_begin[r] && x.column[i] == x.column[i - 1];
        if (!is_again && Index(x.column[i]) < units)
          example_[std::size_t(next[x.column[i]]++)] = std::uint32_t(first + r);
      }
  }
}

std::span<const std::uint32_t> UnitSimilarity::examples_of(Index unit) const {
  const auto from = std::size_t(begin_[std::size_t(unit)]);
  return {example_.data() + from, std::size_t(begin_[std::size_t(unit) + 1]) - from};
}

void UnitSimilarity::to_those_before(std::span<const Index> list, Workspace& workspace,
                                     std::vector<double>& sums) const {
  workspace.sums.resize(std::size_t(examples_), 0.0);
  sums.clear();
  for (const Index unit : list) {
    const std::span<const std::uint32_t> examples = examples_of(unit);
    const double part = examples.empty() ? 0.0 : 1.0 / std::sqrt(double(examples.size()));
    double sum = 0.0;
    for (const std::uint32_t example : examples) sum += workspace.sums[example];
    for (const std::uint32_t example : examples) workspace.sums[example] += part;
    sums.push_back(sum * part);
  }
  for (const Index unit : list)
    for (const std::uint32_t example : examples_of(unit)) workspace.sums[example] = 0.0;
}

}  // namespace norn
