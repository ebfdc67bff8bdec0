// SPDX-License-Identifier: Apache-2.0
// Counting features row by row.
#include "src/data/feature_counts.h"

#include "norn/base/error.h"

#include <algorithm>
#include <numeric>

namespace norn {
namespace {

constexpr Index kPartEntries = Index(1) << 22;   // about, read at a time
constexpr Index kPartExamples = Index(1) << 16;  // located at a time

// How many examples have each stored row.
std::vector<std::int64_t> examples_by_row(Dataset& set) {
  const DatasetInfo& info = set.info();
  if (!info.indexed) return std::vector<std::int64_t>(std::size_t(info.unique_examples), 1);
  std::vector<std::int64_t> by_row(std::size_t(info.unique_examples), 0);
  std::vector<Index> examples;
  HostBatch batch;
  for (Index first = 0; first < info.examples; first += kPartExamples) {
    examples.resize(std::size_t(std::min(kPartExamples, info.examples - first)));
    std::iota(examples.begin(), examples.end(), first);
    set.locate(examples, batch);
    for (const Index row : batch.row) ++by_row[std::size_t(row)];
  }
  return by_row;
}

}  // namespace

std::vector<std::int64_t> count_features(Dataset& set, Index units) {
  const DatasetInfo& info = set.info();
  require(info.gives_sparse_batches(), "count_features: a set with sparse batches");
  const std::vector<std::int64_t> by_row = examples_by_row(set);
  std::vector<std::int64_t> counts(std::size_t(units), 0);
  const Index rows = info.unique_examples;
  const Index per_row = std::max<Index>(1, set.row_entries() / std::max<Index>(1, rows));
  const Index part = std::max<Index>(1, kPartEntries / per_row);
  HostBatch batch;
  for (Index first = 0; first < rows; first += part) {
    set.read_rows(first, std::min(part, rows - first), batch);
    const CsrView x = batch.csr();
    for (Index r = 0; r < x.rows; ++r)
      for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i) {
        const bool is_again = i > x.row_begin[r] && x.column[i] == x.column[i - 1];
        if (!is_again && Index(x.column[i]) < units)
          counts[std::size_t(x.column[i])] += by_row[std::size_t(first + r)];
      }
  }
  return counts;
}

}  // namespace norn
