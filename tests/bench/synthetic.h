// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/philox.h"
#include "norn/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <vector>

/// Sparse examples with the popularity of items that catalogues have: item i is drawn about as
/// often as 1 / (i + 10).
namespace norn::bench {

/// `examples` rows of `per_example` distinct items out of `width` (all, where it has fewer),
/// ascending.
inline std::unique_ptr<Dataset> power_law_dataset(const std::string& name, Index examples,
                                                  Index width, Index per_example,
                                                  std::uint64_t seed) {
  const Philox random = Philox::stream(seed, RandomPurpose::test);
  std::vector<RowOffset> row_begin = {0};
  std::vector<Column> columns;
  std::vector<bool> is_drawn(std::size_t(width), false);
  const double span = std::log((double(width) + 10.0) / 10.0);
  for (Index e = 0; e < examples; ++e) {
    std::vector<Column> row;
    for (Index i = 0; Index(row.size()) < std::min(per_example, width); ++i) {
      const double u = double(random.uniform(std::uint64_t(e), std::uint64_t(i)));
      const auto item = Index(10.0 * std::exp(u * span) - 10.0);
      const auto column = Column(std::clamp<Index>(item, 0, width - 1));
      if (!is_drawn[column]) row.push_back(column);
      is_drawn[column] = true;
    }
    std::sort(row.begin(), row.end());
    for (const Column column : row) is_drawn[column] = false;
    columns.insert(columns.end(), row.begin(), row.end());
    row_begin.push_back(RowOffset(columns.size()));
  }
  return make_sparse_dataset(name, width, std::move(row_begin), std::move(columns));
}

}  // namespace norn::bench
