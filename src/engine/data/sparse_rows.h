// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/tensor/buffer.h"

#include <span>
#include <utility>
#include <vector>

/// Sparse rows that grow entry by entry.
namespace norn {

class SparseRows {
 public:
  explicit SparseRows(bool has_values = false) : has_values_(has_values) {}
  void clear();
  void add(Column column, float value = 1.0f) { row_.emplace_back(column, value); }
  /// Closes the row: columns ascend, and of several entries of a column the first stays. Returns
  /// how many were dropped.
  Index end_row();

  Index rows() const { return Index(begin_.size()) - 1; }
  std::span<const Column> columns(Index row) const;
  std::span<const float> values(Index row) const;
  /// Valid until the next change.
  CsrView view(Index cols) const {
    return {begin_.data(), column_.data(), has_values_ ? value_.data() : nullptr, rows(), cols};
  }
  void copy_to(CsrBuffer& buffer, Index cols) const;

 private:
  bool has_values_;
  std::vector<RowOffset> begin_ = {0};
  std::vector<Column> column_;
  std::vector<float> value_;  // with has_values_
  std::vector<std::pair<Column, float>> row_;
};

}  // namespace norn
