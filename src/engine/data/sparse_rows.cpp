// SPDX-License-Identifier: Apache-2.0
// Sparse rows.
#include "src/engine/data/sparse_rows.h"

#include <algorithm>

namespace norn {

void SparseRows::clear() {
  begin_.assign(1, 0);
  column_.clear();
  value_.clear();
  row_.clear();
}

Index SparseRows::end_row() {
  std::stable_sort(row_.begin(), row_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto end = std::unique(row_.begin(), row_.end(),
                               [](const auto& a, const auto& b) { return a.first == b.first; });
  const Index dropped = row_.end() - end;
  for (auto at = row_.begin(); at != end; ++at) {
    column_.push_back(at->first);
    if (has_values_) value_.push_back(at->second);
  }
  begin_.push_back(RowOffset(column_.size()));
  row_.clear();
  return dropped;
}

std::span<const Column> SparseRows::columns(Index row) const {
  const auto at = std::size_t(row);
  return {column_.data() + begin_[at], std::size_t(begin_[at + 1] - begin_[at])};
}

std::span<const float> SparseRows::values(Index row) const {
  const auto at = std::size_t(row);
  if (!has_values_) return {};
  return {value_.data() + begin_[at], std::size_t(begin_[at + 1] - begin_[at])};
}

void SparseRows::copy_to(CsrBuffer& buffer, Index cols) const {
  const auto copy = [](const auto& from, auto& to) {
    using Buffered = std::remove_reference_t<decltype(to)>;
    if (to.size() < Index(from.size())) to = Buffered(Index(from.size()));
    std::copy(from.begin(), from.end(), to.data());
  };
  copy(begin_, buffer.row_begin);
  copy(column_, buffer.column);
  copy(value_, buffer.value);
  buffer.has_values = has_values_;
  buffer.rows = rows();
  buffer.cols = cols;
}

}  // namespace norn
