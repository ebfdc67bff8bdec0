// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"
#include "src/tensor/block_partition.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

/// Where the rows of a sparse data set begin and end, and the order of entries in a row.
namespace norn {

class NetcdfFile;

class RowOffsets {
 public:
  RowOffsets() = default;
  /// Reads sparseStart and sparseEnd and checks that each row lies in the entries. Rows may
  /// overlap or leave gaps.
  static RowOffsets read(const NetcdfFile& file, const DatasetInfo& info);
  static RowOffsets from_begins(std::vector<RowOffset> begins);
  static RowOffsets one_entry_each(Index rows);

  Range row(Index r) const {
    return {begin_[std::size_t(r)],
            end_.empty() ? begin_[std::size_t(r) + 1] : end_[std::size_t(r)]};
  }
  /// Entry e becomes entry `moved[e]`; the last of these is the end.
  void move(std::span<const RowOffset> moved);

  Index rows() const { return Index(begin_.size()) - (end_.empty() ? 1 : 0); }
  Index empty_rows() const;
  /// No entry belongs to two rows, and rows follow each other.
  bool disjoint() const;
  /// The first row that holds an entry. Slow: for messages.
  std::optional<Index> row_of_entry(Index entry) const;

 private:
  std::vector<RowOffset> begin_;  // one more than rows when end_ is empty
  std::vector<RowOffset> end_;    // empty when each row ends where the next begins
};

using SortWorkspace = std::vector<std::pair<Column, float>>;

/// Puts a row's entries in ascending order of columns; entries of one column keep their order.
/// `values` may be null.
void sort_row(Column* columns, float* values, Index count, SortWorkspace& workspace);

}  // namespace norn
