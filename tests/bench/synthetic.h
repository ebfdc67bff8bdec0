// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/philox.h"
#include "src/data/dataset.h"
#include "tests/support/memory_datasets.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <thread>
#include <vector>

/// Sparse examples with the popularity of items that catalogues have: the i-th one is drawn about
/// as often as 1 / (i + 10). Items are numbered by popularity, or so that popular ones may be
/// anywhere.
namespace norn::bench {

/// Rows [first, first + count) of the set below: their lengths and columns.
struct DrawnRows {
  std::vector<RowOffset> length;
  std::vector<Column> column;
};

enum class Numbering { by_popularity, mixed };

inline DrawnRows draw_rows(Index first, Index count, Index width, Index per_example,
                           std::uint64_t seed, Numbering numbering) {
  constexpr Index kPrime = 2654435761;  // beyond any width: no two items become one
  const bool mixes = numbering == Numbering::mixed;
  const Philox random = Philox::stream(seed, RandomPurpose::test);
  const double span = std::log((double(width) + 10.0) / 10.0);
  std::vector<bool> is_drawn(std::size_t(width), false);
  DrawnRows rows;
  for (Index e = first; e < first + count; ++e) {
    const std::size_t begin = rows.column.size();
    const std::size_t end = begin + std::size_t(std::min(per_example, width));
    for (Index i = 0; rows.column.size() < end; ++i) {
      const double u = double(random.uniform(std::uint64_t(e), std::uint64_t(i)));
      const auto item = Index(10.0 * std::exp(u * span) - 10.0);
      const Index place = std::clamp<Index>(item, 0, width - 1);
      const auto column = Column(mixes ? place * kPrime % width : place);
      if (!is_drawn[column]) rows.column.push_back(column);
      is_drawn[column] = true;
    }
    std::sort(rows.column.begin() + std::ptrdiff_t(begin), rows.column.end());
    for (std::size_t i = begin; i < end; ++i) is_drawn[rows.column[i]] = false;
    rows.length.push_back(RowOffset(end - begin));
  }
  return rows;
}

/// `examples` rows of `per_example` distinct items out of `width` (all, where it has fewer),
/// ascending. The same whatever the number of cores, which share the work.
inline std::unique_ptr<Dataset> power_law_dataset(const std::string& name, Index examples,
                                                  Index width, Index per_example,
                                                  std::uint64_t seed,
                                                  Numbering numbering = Numbering::by_popularity) {
  const Index parts = std::clamp<Index>(examples / 1024, 1, std::thread::hardware_concurrency());
  std::vector<std::future<DrawnRows>> drawn;
  for (Index p = 0; p < parts; ++p) {
    const Index first = examples * p / parts;
    drawn.push_back(std::async(std::launch::async, draw_rows, first,
                               examples * (p + 1) / parts - first, width, per_example, seed,
                               numbering));
  }
  std::vector<RowOffset> row_begin = {0};
  std::vector<Column> columns;
  for (auto& part : drawn) {
    const DrawnRows rows = part.get();
    for (const RowOffset length : rows.length) row_begin.push_back(row_begin.back() + length);
    columns.insert(columns.end(), rows.column.begin(), rows.column.end());
  }
  return make_sparse_dataset(name, width, std::move(row_begin), std::move(columns));
}

}  // namespace norn::bench
