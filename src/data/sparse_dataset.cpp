// SPDX-License-Identifier: Apache-2.0
// Data sets whose stored entries are listed row by row, and class labels, which have one a row.

#include "dataset_items.h"
#include "norn/base/error.h"
#include "sparse_rows.h"
#include "stored_dataset.h"
#include "stored_values.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr Index kLargestGap = 4096;             // entries read in vain between two rows
constexpr Index kLongestRead = Index(1) << 22;  // entries

class SparseDataset final : public StoredDataset {
 public:
  SparseDataset(DatasetInfo info, Residency residency, Role role,
                std::shared_ptr<const UnitMatch> match)
      : StoredDataset(std::move(info), role),
        file_(std::make_unique<NetcdfFile>(info_.file, NetcdfFile::Mode::read)),
        match_(std::move(match)),
        stored_width_(info_.width()),
        column_name_(item(info_.sparse ? "sparseIndex" : "data", info_.number)) {
    read_index_and_weights(*file_);
    offsets_ = info_.sparse ? RowOffsets::read(*file_, info_)
                            : RowOffsets::one_entry_each(info_.unique_examples);
    info_.empty_rows = offsets_.empty_rows();
    if (has_values()) {
      source_.emplace(*file_, info_, item("sparseData", info_.number), role_);
    }
    if (residency == Residency::stream) {
      if (match_) match_stream();
      return;
    }
    columns_ = Buffer<Column>(info_.entries);
    if (has_values()) values_ = Buffer<float>(info_.entries);
    for (Index first = 0; first < info_.entries; first += kLongestRead) {
      const Index count = std::min(kLongestRead, info_.entries - first);
      read(first, {columns_.data() + first, std::size_t(count)},
           {values_.data() + (has_values() ? first : 0), std::size_t(has_values() ? count : 0)});
    }
    source_.reset();
    file_.reset();
    if (match_) match_memory();
    sort_rows_in_memory();
  }

  RowOffset row_entries() const override {
    RowOffset entries = 0;
    for (Index row = 0; row < rows_read().rows(); ++row) entries += rows_read().row(row).count();
    return entries;
  }

 private:
  RowOffset entries_of(std::span<const Index> rows) const override {
    RowOffset entries = 0;
    for (const Index row : rows) entries += rows_read().row(row).count();
    return entries;
  }

  /// As long as rows are when they have been read: of those in the file some entries may be left
  /// out.
  const RowOffsets& rows_read() const { return matched_rows_ ? *matched_rows_ : offsets_; }

  void fill(std::span<const Index> rows, HostBatch& batch) override {
    CsrBuffer& csr = batch.sparse;
    csr.rows = batch.examples;
    csr.cols = info_.width();
    csr.has_values = has_values();
    reserve(csr.row_begin, csr.rows + 1);
    RowOffset* const begin = csr.row_begin.data();
    begin[0] = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Range row = offsets_.row(rows[i]);
      begin[i + 1] = begin[i] + row.count();
    }
    reserve(csr.column, begin[rows.size()]);
    if (csr.has_values) reserve(csr.value, begin[rows.size()]);
    if (file_) {
      gather_from_file(rows, csr);
      if (match_) match_rows(csr);
    } else {
      gather_from_memory(rows, csr);
    }
    if (sorted_) return;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      finish_row(rows[i], csr.column.data() + begin[i],
                 csr.has_values ? csr.value.data() + begin[i] : nullptr, begin[i + 1] - begin[i]);
    }
  }

  bool has_values() const { return info_.sparse && !info_.boolean; }

  void take_units_of_the_model() {
    info_.extent = {match_->units.size(), 1, 1};
    info_.dimensions = 1;
    info_.unit_labels = match_->units;
  }

  /// Renumbers the entries of rows that follow each other, and closes the gaps that those leave
  /// whose feature the model does not have.
  void match_rows(CsrBuffer& csr) const {
    RowOffset* const begin = csr.row_begin.data();
    RowOffset from = begin[0];
    RowOffset to = from;
    for (Index row = 0; row < csr.rows; ++row) {
      for (const RowOffset end = begin[row + 1]; from < end; ++from) {
        const Column unit = match_->unit_of(csr.column.data()[from]);
        if (unit == LabelIndex::kUnknown) continue;
        csr.column.data()[to] = unit;
        if (csr.has_values) csr.value.data()[to] = csr.value.data()[from];
        ++to;
      }
      begin[row + 1] = to;
    }
  }

  /// Rows that share entries go on doing so: many may share all there are.
  void match_memory() {
    const RowOffset before = row_entries();
    std::vector<RowOffset> moved(std::size_t(info_.entries) + 1);
    RowOffset to = 0;
    for (RowOffset from = 0; from < info_.entries; ++from) {
      moved[std::size_t(from)] = to;
      const Column unit = match_->unit_of(columns_.data()[from]);
      if (unit == LabelIndex::kUnknown) continue;
      columns_.data()[to] = unit;
      if (has_values()) values_.data()[to] = values_.data()[from];
      ++to;
    }
    moved.back() = to;
    offsets_.move(moved);
    take_units_of_the_model();
    info_.entries = to;
    info_.left_out = before - row_entries();
    info_.empty_rows = offsets_.empty_rows();
  }

  /// What is left out is known only when all was read once.
  void match_stream() {
    take_units_of_the_model();
    if (match_->unknown == 0) return;
    const Index rows = offsets_.rows();
    const RowOffset before = row_entries();
    const Index step = std::max<Index>(1, kLongestRead * rows / std::max<Index>(1, before));
    HostBatch part;
    std::vector<RowOffset> begin = {0};
    for (Index first = 0; first < rows; first += step) {
      read_rows(first, std::min(step, rows - first), part);
      const CsrView csr = part.csr();
      const RowOffset so_far = begin.back();
      for (Index row = 0; row < csr.rows; ++row) begin.push_back(so_far + csr.row_begin[row + 1]);
    }
    info_.entries = begin.back();
    info_.left_out = before - info_.entries;
    matched_rows_ = RowOffsets::from_begins(std::move(begin));
    info_.empty_rows = matched_rows_->empty_rows();
  }

  void gather_from_memory(std::span<const Index> rows, CsrBuffer& csr) const {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Range row = offsets_.row(rows[i]);
      const RowOffset to = csr.row_begin.data()[i];
      std::copy_n(columns_.data() + row.begin, row.count(), csr.column.data() + to);
      if (csr.has_values) {
        std::copy_n(values_.data() + row.begin, row.count(), csr.value.data() + to);
      }
    }
  }

  void gather_from_file(std::span<const Index> rows, CsrBuffer& csr) {
    std::vector<RowExtent> extents;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Range row = offsets_.row(rows[i]);
      if (row.count() > 0) extents.push_back({row.begin, row.end, i});
    }
    for (const ReadRun& run : plan_reads(extents, kLargestGap, kLongestRead)) {
      read_columns_.resize(std::size_t(run.end - run.begin));
      read_values_.resize(csr.has_values ? read_columns_.size() : 0);
      read(run.begin, read_columns_, read_values_);
      for (std::size_t i = run.first_row; i < run.last_row; ++i) {
        const Index from = extents[i].begin - run.begin;
        const Index count = extents[i].end - extents[i].begin;
        const RowOffset to = csr.row_begin.data()[extents[i].position];
        std::copy_n(read_columns_.data() + from, count, csr.column.data() + to);
        if (csr.has_values) std::copy_n(read_values_.data() + from, count, csr.value.data() + to);
      }
    }
  }

  void read(Index first, std::span<Column> columns, std::span<float> values) {
    try {
      read_columns(*file_, column_name_, stored_width_, first, columns);
    } catch (const OutOfRange& wrong) {
      fail_column(wrong);
    }
    if (!source_) return;
    source_->read(first, values);
    check_finite(first, values);
  }

  [[noreturn]] void fail_column(const OutOfRange& wrong) const {
    throw DataError(
        fmt::format("{}: {}: {} {} is out of range, expected 0 to {}; correct the data "
                    "and write the file again",
                    place(info_), entry_name(wrong.position), info_.sparse ? "column" : "class",
                    wrong.value, stored_width_ - 1));
  }

  void check_finite(Index first, std::span<const float> values) const {
    const auto wrong = first_not_finite(values);
    if (!wrong) return;
    throw DataError(
        fmt::format("{}: {}: a value is {}, expected a finite number; correct the data "
                    "and write the file again",
                    place(info_), entry_name(first + *wrong), values[std::size_t(*wrong)]));
  }

  std::string entry_name(Index entry) const {
    const auto row = offsets_.row_of_entry(entry);
    return row ? row_name(*row) : fmt::format("entry {}, in no example", entry);
  }

  /// Rows that share no entries are put in order once; others at every gather.
  void sort_rows_in_memory() {
    sorted_ = offsets_.disjoint();
    for (Index row = 0; row < info_.unique_examples; ++row) {
      const Range entries = offsets_.row(row);
      if (sorted_) {
        finish_row(row, columns_.data() + entries.begin,
                   has_values() ? values_.data() + entries.begin : nullptr, entries.count());
      }
    }
  }

  void finish_row(Index row, Column* columns, float* values, Index count) {
    sort_row(columns, values, count, sort_workspace_);
    if (role_ != Role::target) return;
    const Column* const twice = std::adjacent_find(columns, columns + count);
    if (twice == columns + count) return;
    throw DataError(
        fmt::format("{}: {}: column {} occurs twice, which a target may not; remove the "
                    "duplicate and write the file again",
                    place(info_), row_name(row), *twice));
  }

  std::unique_ptr<NetcdfFile> file_;        // when streaming
  std::shared_ptr<const UnitMatch> match_;  // of a set that enters a model of another order
  Index stored_width_ = 0;
  RowOffsets offsets_;
  std::optional<RowOffsets> matched_rows_;  // when streaming, and entries are left out
  bool sorted_ = false;
  Buffer<Column> columns_;  // when in memory
  Buffer<float> values_;
  std::string column_name_;
  std::optional<StoredValues> source_;
  std::vector<Column> read_columns_;
  std::vector<float> read_values_;
  SortWorkspace sort_workspace_;
};

}  // namespace

std::unique_ptr<Dataset> open_sparse_dataset(const DatasetInfo& info, Residency residency,
                                             Role role, std::shared_ptr<const UnitMatch> match) {
  require(!match || Index(match->to.size()) <= info.width(),
          "open_dataset: a match of units that the data set has");
  return std::make_unique<SparseDataset>(info, residency, role, std::move(match));
}

}  // namespace norn
