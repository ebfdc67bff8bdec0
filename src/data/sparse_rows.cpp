// SPDX-License-Identifier: Apache-2.0
// Offsets of sparse rows: read, checked, and kept as short as they allow.

#include "sparse_rows.h"

#include "dataset_items.h"
#include "norn/base/error.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace norn {

RowOffsets RowOffsets::read(const NetcdfFile& file, const DatasetInfo& info) {
  RowOffsets offsets;
  offsets.begin_.resize(std::size_t(info.unique_examples));
  offsets.end_.resize(std::size_t(info.unique_examples));
  file.read(item("sparseStart", info.number), 0, std::span<Index>(offsets.begin_));
  file.read(item("sparseEnd", info.number), 0, std::span<Index>(offsets.end_));
  bool contiguous = true;
  for (std::size_t row = 0; row < offsets.end_.size(); ++row) {
    const Index begin = offsets.begin_[row], end = offsets.end_[row];
    if (begin < 0 || begin > end || end > info.entries) {
      throw DataError(fmt::format(
          "{}: {} {}: its entries are {} to {}, expected an ordered range "
          "within 0 to {}; write the file again",
          place(info), info.indexed ? "stored row" : "example", row, begin, end, info.entries));
    }
    if (row > 0) contiguous = contiguous && begin == offsets.end_[row - 1];
  }
  if (contiguous) {
    offsets.begin_.push_back(offsets.end_.back());
    offsets.end_ = {};
  }
  return offsets;
}

RowOffsets RowOffsets::from_begins(std::vector<RowOffset> begins) {
  RowOffsets offsets;
  offsets.begin_ = std::move(begins);
  return offsets;
}

RowOffsets RowOffsets::one_entry_each(Index rows) {
  RowOffsets offsets;
  offsets.begin_.resize(std::size_t(rows) + 1);
  std::iota(offsets.begin_.begin(), offsets.begin_.end(), RowOffset(0));
  return offsets;
}

void RowOffsets::move(std::span<const RowOffset> moved) {
  for (RowOffset& entry : begin_) entry = moved[std::size_t(entry)];
  for (RowOffset& entry : end_) entry = moved[std::size_t(entry)];
}

Index RowOffsets::empty_rows() const {
  Index empty = 0;
  for (Index r = 0; r < rows(); ++r) empty += row(r).count() == 0;
  return empty;
}

bool RowOffsets::disjoint() const {
  for (std::size_t row = 1; row < end_.size(); ++row) {
    if (begin_[row] < end_[row - 1]) return false;
  }
  return true;
}

std::optional<Index> RowOffsets::row_of_entry(Index entry) const {
  for (Index r = 0; r < rows(); ++r) {
    if (row(r).begin <= entry && entry < row(r).end) return r;
  }
  return std::nullopt;
}

void sort_row(Column* columns, float* values, Index count, SortWorkspace& workspace) {
  if (std::is_sorted(columns, columns + count)) return;
  if (!values) {
    std::sort(columns, columns + count);
    return;
  }
  workspace.clear();
  for (Index i = 0; i < count; ++i) workspace.emplace_back(columns[i], values[i]);
  std::stable_sort(workspace.begin(), workspace.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (Index i = 0; i < count; ++i) {
    columns[i] = workspace[std::size_t(i)].first;
    values[i] = workspace[std::size_t(i)].second;
  }
}

}  // namespace norn
