// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/memory_set.h"
#include "src/data/sparse_rows.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Data sets that keep their arrays themselves.
namespace norn {

/// `row_begin` has examples + 1 offsets, from 0 to columns.size(); columns of a row in any order.
/// `values` empty: every column counts as 1.
inline std::unique_ptr<Dataset> make_sparse_dataset(std::string name, Index width,
                                                    std::vector<RowOffset> row_begin,
                                                    std::vector<Column> columns,
                                                    std::vector<float> values = {}) {
  struct Rows {
    std::vector<RowOffset> begin;
    std::vector<Column> columns;
    std::vector<float> values;
  };
  const auto rows =
      std::make_shared<Rows>(Rows{std::move(row_begin), std::move(columns), std::move(values)});
  MemorySet set{.name = std::move(name), .width = width};
  set.row_begin = rows->begin;
  set.columns = rows->columns;
  set.values = rows->values;
  set.owner = rows;
  describe(set);  // before anything is read where offsets say
  SortWorkspace workspace;
  for (std::size_t row = 0; row + 1 < rows->begin.size(); ++row) {
    const RowOffset first = rows->begin[row];
    sort_row(rows->columns.data() + first,
             rows->values.empty() ? nullptr : rows->values.data() + first,
             rows->begin[row + 1] - first, workspace);
  }
  return open_memory_set(set, Role::input);
}

/// `values`: [examples x width].
inline std::unique_ptr<Dataset> make_dense_dataset(std::string name, Index width,
                                                   std::vector<float> values) {
  const auto owned = std::make_shared<const std::vector<float>>(std::move(values));
  MemorySet set{.name = std::move(name), .width = width};
  set.dense = *owned;
  set.owner = owned;
  return open_memory_set(set, Role::input);
}

}  // namespace norn
