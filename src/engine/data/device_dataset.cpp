// SPDX-License-Identifier: Apache-2.0
// A data set's way into a GPU's memory, once, in pieces of bounded size.
#include "src/engine/data/device_dataset.h"

#include <algorithm>

namespace norn {
namespace {

constexpr Index kPieceElements = Index(1) << 24;  // 64 MiB of columns

// Stored rows that a piece of `elements` in `rows` rows may have, at the mean length.
Index rows_of_piece(Index rows, RowOffset elements) {
  const Index mean = std::max<Index>(1, elements / std::max<Index>(1, rows));
  return std::max<Index>(1, kPieceElements / mean);
}

bool has_values(const DatasetInfo& info) {
  return info.sparse && !info.boolean;
}

}  // namespace

DeviceDataset::DeviceDataset(std::shared_ptr<Dataset> set, Memory& memory)
    : Dataset(set->info()), set_(std::move(set)) {
  if (info_.gives_sparse_batches()) {
    const RowOffset entries = set_->row_entries();
    row_begin_ = Buffer<RowOffset>(info_.unique_examples + 1, memory);
    column_ = Buffer<Column>(entries, memory);
    if (has_values(info_)) value_ = Buffer<float>(entries, memory);
    copy_sparse(memory);
  } else {
    value_ = Buffer<float>(info_.unique_examples * info_.width(), memory);
    copy_dense(memory);
  }
}

void DeviceDataset::copy_sparse(Memory& memory) {
  const Index rows = info_.unique_examples;
  const Index step = rows_of_piece(rows, column_.size());
  std::vector<RowOffset> begin{0};
  begin.reserve(std::size_t(rows) + 1);
  HostBatch piece;
  for (Index first = 0; first < rows; first += step) {
    set_->read_rows(first, std::min(step, rows - first), piece);
    const CsrView x = piece.csr();
    const RowOffset to = begin.back();
    const auto entries = std::size_t(x.entries());
    if (entries > 0) memory.write(column_.data() + to, x.column, entries * sizeof(Column));
    if (entries > 0 && x.value) memory.write(value_.data() + to, x.value, entries * sizeof(float));
    for (Index r = 0; r < x.rows; ++r) begin.push_back(to + x.row_begin[r + 1]);
  }
  row_begin_.write(begin.data(), Index(begin.size()));
  stored_.sparse = {
      row_begin_.data(), column_.data(), has_values(info_) ? value_.data() : nullptr, rows,
      info_.width(),     column_.size()};
}

void DeviceDataset::copy_dense(Memory& memory) {
  const Index rows = info_.unique_examples;
  const Index width = info_.width();
  const Index step = rows_of_piece(rows, value_.size());
  HostBatch piece;
  for (Index first = 0; first < rows; first += step) {
    set_->read_rows(first, std::min(step, rows - first), piece);
    const MatrixView<const float> x = piece.matrix();
    memory.write(value_.data() + first * width, x.data, std::size_t(x.size()) * sizeof(float));
  }
  stored_.dense = {value_.data(), rows, width, width};
}

void DeviceDataset::gather(std::span<const Index> examples, HostBatch& batch) {
  set_->locate(examples, batch);
  batch.stored = &stored_;
}

}  // namespace norn
