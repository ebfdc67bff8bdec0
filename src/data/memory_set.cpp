// SPDX-License-Identifier: Apache-2.0
// Data sets whose contents stand in memory already.
#include "norn/data/memory_set.h"

#include "norn/base/error.h"
#include "sparse_rows.h"
#include "stored_dataset.h"
#include "stored_values.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

// What is wrong when a set is opened, and what was right then and is wrong when it is read.
constexpr const char* kMend = "correct the data";
constexpr const char* kLeave =
    "the data were changed while they were in use, leave the arrays as they are";

[[noreturn]] void fail(const DatasetInfo& info, Index example, const std::string& what,
                       const char* advice) {
  throw DataError(fmt::format("{}: example {}: {}; {}", place(info), example, what, advice));
}

// name_of(i): the example that value i belongs to, and what the value is there.
void check_finite(const DatasetInfo& info, std::span<const float> values, const char* advice,
                  const auto& name_of) {
  const auto wrong = first_not_finite(values);
  if (!wrong) return;
  const auto [example, what] = name_of(*wrong);
  fail(info, example,
       fmt::format("{} is {}, expected a finite number", what, values[std::size_t(*wrong)]),
       advice);
}

// The arrays of a data set that nobody else keeps.
struct OwnedRows {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  std::vector<float> values;
};

void take(std::shared_ptr<const OwnedRows> rows, MemorySet& set) {
  set.row_begin = rows->begin;
  set.columns = rows->columns;
  set.values = rows->values;
  set.owner = std::move(rows);
}

void sort(OwnedRows& rows, Index row, SortWorkspace& workspace) {
  const RowOffset first = rows.begin[std::size_t(row)];
  sort_row(rows.columns.data() + first, rows.values.empty() ? nullptr : rows.values.data() + first,
           rows.begin[std::size_t(row) + 1] - first, workspace);
}

// Others may write into the arrays at any time: offsets are the set's own from here on.
MemorySet with_own_offsets(MemorySet set) {
  struct Kept {
    std::vector<RowOffset> begin;
    std::shared_ptr<const void> arrays;
  };
  const auto kept = std::make_shared<const Kept>(
      Kept{{set.row_begin.begin(), set.row_begin.end()}, std::move(set.owner)});
  set.row_begin = kept->begin;
  set.owner = kept;
  return set;
}

// Columns and values are checked when the set is opened, and again where a batch of them has been
// copied to, because the network's kernels trust columns.
class MemorySparse final : public StoredDataset {
 public:
  MemorySparse(MemorySet set, Role role, const UnitMatch* match)
      : StoredDataset(describe(set), role), set_(std::move(set)) {
    take_weights(set_.weights);
    if (match)
      enter(*match);
    else
      check_all();
    info_.empty_rows = 0;
    for (Index row = 0; row < info_.unique_examples; ++row)
      info_.empty_rows += entries(row).count() == 0;
  }

  RowOffset row_entries() const override { return info_.entries; }

 private:
  Range entries(Index row) const {
    return {set_.row_begin[std::size_t(row)], set_.row_begin[std::size_t(row) + 1]};
  }

  Index example_of(Index entry) const {
    return std::ranges::upper_bound(set_.row_begin, entry) - set_.row_begin.begin() - 1;
  }

  // Without a branch for each column, because batches are checked, too.
  bool ascend(std::span<const Column> columns) const {
    const Column step = role_ == Role::target ? 1 : 0;
    Column falls = 0;
    for (std::size_t i = 1; i < columns.size(); ++i)
      falls |= Column(columns[i] < columns[i - 1]) | Column(columns[i] - columns[i - 1] < step);
    return falls == 0;
  }

  void check(Index row, std::span<const Column> columns, const char* advice) const {
    if (columns.empty() || (ascend(columns) && Index(columns.back()) < info_.width())) return;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const Column column = columns[i];
      if (column >= info_.width())
        fail(info_, row,
             fmt::format("column {} is out of range, expected 0 to {}", column, info_.width() - 1),
             advice);
      if (i == 0) continue;
      if (column < columns[i - 1])
        fail(info_, row,
             fmt::format("column {} stands after {}, expected ascending columns", column,
                         columns[i - 1]),
             advice);
      if (column == columns[i - 1] && role_ == Role::target)
        fail(info_, row, fmt::format("column {} occurs twice, which a target may not", column),
             advice);
    }
  }

  void check_values(std::span<const float> values, const char* advice) const {
    check_finite(info_, values, advice,
                 [&](Index i) { return std::pair(example_of(i), std::string("a value")); });
  }

  void check_all() const {
    for (Index row = 0; row < info_.unique_examples; ++row)
      check(
          row,
          set_.columns.subspan(std::size_t(entries(row).begin), std::size_t(entries(row).count())),
          kMend);
    check_values(set_.values, kMend);
  }

  void enter(const UnitMatch& match) {
    auto rows = std::make_shared<OwnedRows>();
    SortWorkspace workspace;
    std::vector<Column> columns;
    check_values(set_.values, kMend);
    for (Index row = 0; row < info_.unique_examples; ++row) {
      const Range range = entries(row);
      columns.assign(set_.columns.begin() + range.begin, set_.columns.begin() + range.end);
      check(row, columns, kMend);
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const Column unit = match.unit_of(columns[i]);
        if (unit == LabelIndex::kUnknown) continue;
        rows->columns.push_back(unit);
        if (!set_.values.empty()) rows->values.push_back(set_.values[std::size_t(range.begin) + i]);
      }
      rows->begin.push_back(RowOffset(rows->columns.size()));
      sort(*rows, row, workspace);
    }
    info_.extent = {match.units.size(), 1, 1};
    info_.unit_labels = match.units;
    info_.left_out = info_.entries - RowOffset(rows->columns.size());
    info_.entries = RowOffset(rows->columns.size());
    take(std::move(rows), set_);
  }

  RowOffset entries_of(std::span<const Index> rows) const override {
    RowOffset sum = 0;
    for (const Index row : rows) sum += entries(row).count();
    return sum;
  }

  void fill(std::span<const Index> rows, HostBatch& batch) override {
    CsrBuffer& csr = batch.sparse;
    csr.rows = batch.examples;
    csr.cols = info_.width();
    csr.has_values = !info_.boolean;
    reserve(csr.row_begin, csr.rows + 1);
    reserve(csr.column, entries_of(rows));
    if (csr.has_values) reserve(csr.value, entries_of(rows));
    RowOffset to = csr.row_begin.data()[0] = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Range range = entries(rows[i]);
      std::copy_n(set_.columns.data() + range.begin, range.count(), csr.column.data() + to);
      if (csr.has_values)
        std::copy_n(set_.values.data() + range.begin, range.count(), csr.value.data() + to);
      to = csr.row_begin.data()[i + 1] = to + range.count();
    }
    check_batch(rows, csr);
  }

  // After all has been copied: the processor fetches many rows at once then.
  void check_batch(std::span<const Index> rows, const CsrBuffer& csr) const {
    const RowOffset* const begin = csr.row_begin.data();
    for (std::size_t i = 0; i < rows.size(); ++i)
      check(rows[i], {csr.column.data() + begin[i], std::size_t(begin[i + 1] - begin[i])}, kLeave);
    if (!csr.has_values) return;
    const std::span<const float> values(csr.value.data(), std::size_t(begin[rows.size()]));
    check_finite(info_, values, kLeave, [&](Index entry) {
      const auto row = std::upper_bound(begin, begin + rows.size() + 1, entry) - begin - 1;
      return std::pair(rows[std::size_t(row)], std::string("a value"));
    });
  }

  MemorySet set_;
};

class MemoryDense final : public StoredDataset {
 public:
  MemoryDense(MemorySet set, Role role) : StoredDataset(describe(set), role), set_(std::move(set)) {
    take_weights(set_.weights);
    check(set_.dense, kMend, [](Index row) { return row; });
  }

  RowOffset row_entries() const override { return 0; }

 private:
  RowOffset entries_of(std::span<const Index>) const override { return 0; }

  // example_of(row): that of a row of these values.
  void check(std::span<const float> values, const char* advice, const auto& example_of) const {
    check_finite(info_, values, advice, [&](Index i) {
      return std::pair(example_of(i / info_.width()), fmt::format("unit {}", i % info_.width()));
    });
  }

  void fill(std::span<const Index> rows, HostBatch& batch) override {
    const Index width = info_.width();
    if (batch.dense.cols() != width || batch.dense.rows() < batch.examples)
      batch.dense = Matrix<float>(batch.examples, width);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      float* const to = batch.dense.view().row(Index(i));
      std::copy_n(set_.dense.data() + rows[i] * width, width, to);
      check({to, std::size_t(width)}, kLeave, [&](Index) { return rows[i]; });
    }
  }

  MemorySet set_;
};

std::string width_fault(const MemorySet& set) {
  return fmt::format("its width is {}, expected at least 1", set.width);
}

// What of a set's arrays does not fit; empty: they do.
std::string dense_fault(const MemorySet& set) {
  if (set.width < 1) return width_fault(set);
  if (!set.row_begin.empty() || !set.columns.empty() || !set.values.empty())
    return "it has dense values and rows of columns, expected one of them";
  if (Index(set.dense.size()) % set.width != 0)
    return fmt::format("{} dense values are no rows of {}", set.dense.size(), set.width);
  return {};
}

std::string sparse_fault(const MemorySet& set) {
  const std::span<const RowOffset> begin = set.row_begin;
  if (set.width < 1) return width_fault(set);
  if (begin.size() < 2)
    return fmt::format("row_begin has {} offsets, expected one more than there are examples",
                       begin.size());
  if (begin.front() != 0) return fmt::format("row_begin begins with {}, expected 0", begin.front());
  if (const auto fall = std::ranges::is_sorted_until(begin); fall != begin.end())
    return fmt::format("row_begin[{}] is {}, less than the offset before it, {}",
                       fall - begin.begin(), *fall, *(fall - 1));
  if (begin.back() != RowOffset(set.columns.size()))
    return fmt::format("row_begin ends with {}, expected the number of columns, {}", begin.back(),
                       set.columns.size());
  if (!set.values.empty() && set.values.size() != set.columns.size())
    return fmt::format("it has {} values for {} columns, expected one a column or none",
                       set.values.size(), set.columns.size());
  return {};
}

}  // namespace

DatasetInfo describe(const MemorySet& set) {
  const bool dense = !set.dense.empty();
  const auto refuse = [&](const std::string& fault) {
    throw DataError(fmt::format("data set \"{}\": {}; {}", set.name, fault, kMend));
  };
  if (const std::string fault = dense ? dense_fault(set) : sparse_fault(set); !fault.empty())
    refuse(fault);
  DatasetInfo info;
  info.name = set.name;
  info.extent[0] = set.width;
  info.sparse = !dense;
  info.boolean = !dense && set.values.empty();
  info.type = info.boolean ? ElementType::uint32 : ElementType::float32;
  info.sparse_ignore_zero = set.ignore_absent;
  info.own_units = set.own_units;
  info.weighted = !set.weights.empty();
  info.examples = info.unique_examples =
      dense ? Index(set.dense.size()) / set.width : Index(set.row_begin.size()) - 1;
  info.entries = RowOffset(set.columns.size());
  info.unit_labels = set.unit_labels;
  if (info.weighted && Index(set.weights.size()) != info.examples)
    refuse(fmt::format("{} weights for {} examples", set.weights.size(), info.examples));
  if (set.unit_labels.size() > set.width)
    refuse(fmt::format("{} labels for {} units", set.unit_labels.size(), set.width));
  return info;
}

std::unique_ptr<Dataset> open_memory_set(const MemorySet& set, Role role,
                                         const std::shared_ptr<const UnitMatch>& match) {
  if (set.dense.empty())
    return std::make_unique<MemorySparse>(with_own_offsets(set), role, match.get());
  if (match) refuse_match(describe(set));
  return std::make_unique<MemoryDense>(set, role);
}

}  // namespace norn
