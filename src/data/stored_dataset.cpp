// SPDX-License-Identifier: Apache-2.0
// Examples, stored rows and weights; and what to read for the rows of a batch.

#include "stored_dataset.h"

#include "dataset_items.h"
#include "norn/base/error.h"
#include "stored_values.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace norn {

void StoredDataset::read_index_and_weights(const NetcdfFile& file) {
  if (info_.indexed) {
    index_.resize(std::size_t(info_.examples));
    try {
      read_columns(file, item("index", info_.number), info_.unique_examples, 0, index_);
    } catch (const OutOfRange& wrong) {
      throw DataError(fmt::format(
          "{}: example {}: index{} is {}, expected 0 to {}; write the file "
          "again",
          place(info_), wrong.position, info_.number, wrong.value, info_.unique_examples - 1));
    }
  }
  if (!info_.weighted) return;
  weight_.resize(std::size_t(info_.examples));
  DatasetInfo plain = info_;
  plain.type = ElementType::float32;
  StoredValues(file, plain, item("dataWeight", info_.number), role_).read(0, weight_);
  check_weights();
}

void StoredDataset::take_weights(std::span<const float> weights) {
  weight_.assign(weights.begin(), weights.end());
  check_weights();
}

void StoredDataset::check_weights() const {
  if (const auto wrong = first_not_finite(weight_)) {
    throw DataError(fmt::format("{}: example {}: its weight is {}, expected a finite number; {}",
                                place(info_), *wrong, weight_[std::size_t(*wrong)],
                                info_.file.empty() ? "correct the data" : "write the file again"));
  }
}

void StoredDataset::gather(std::span<const Index> examples, HostBatch& batch) {
  begin_batch(examples, batch);
  batch.stored = nullptr;
  fill(rows_, batch);
}

void StoredDataset::locate(std::span<const Index> examples, HostBatch& batch) {
  begin_batch(examples, batch);
  batch.row.assign(rows_.begin(), rows_.end());
  batch.entries = entries_of(rows_);
}

void StoredDataset::read_rows(Index first, Index count, HostBatch& batch) {
  rows_.resize(std::size_t(count));
  std::iota(rows_.begin(), rows_.end(), first);
  batch.examples = count;
  batch.width = info_.width();
  batch.is_sparse = info_.gives_sparse_batches();
  fill(rows_, batch);
}

void StoredDataset::begin_batch(std::span<const Index> examples, HostBatch& batch) {
  for (const Index example : examples) {
    if (example < 0 || example >= info_.examples) {
      throw ShapeError(fmt::format("{}: example {} was asked for, it has 0 to {}", place(info_),
                                   example, info_.examples - 1));
    }
  }
  batch.examples = Index(examples.size());
  batch.width = info_.width();
  batch.is_sparse = info_.gives_sparse_batches();
  batch.example.assign(examples.begin(), examples.end());
  batch.weight.clear();
  for (const Index example : examples) {
    if (!weight_.empty()) batch.weight.push_back(weight_[std::size_t(example)]);
  }
  rows_.assign(examples.begin(), examples.end());
  if (!index_.empty()) {
    for (Index& row : rows_) row = Index(index_[std::size_t(row)]);
  }
}

std::string StoredDataset::row_name(Index row) const {
  return fmt::format("{} {}", info_.indexed ? "stored row" : "example", row);
}

std::vector<ReadRun> plan_reads(std::vector<RowExtent>& rows, Index largest_gap, Index longest) {
  std::sort(rows.begin(), rows.end(), [](const RowExtent& a, const RowExtent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.position < b.position;
  });
  std::vector<ReadRun> runs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowExtent& row = rows[i];
    if (!runs.empty()) {
      ReadRun& run = runs.back();
      const Index end = std::max(run.end, row.end);
      if (row.begin <= run.end + largest_gap && end - run.begin <= longest) {
        run.end = end;
        run.last_row = i + 1;
        continue;
      }
    }
    runs.push_back({row.begin, row.end, i, i + 1});
  }
  return runs;
}

std::unique_ptr<Dataset> open_dataset(const DatasetInfo& info, Residency residency, Role role,
                                      std::shared_ptr<const UnitMatch> match) {
  if (info.gives_sparse_batches())
    return open_sparse_dataset(info, residency, role, std::move(match));
  if (match) refuse_match(info);
  return open_dense_dataset(info, residency, role);
}

void refuse_match(const DatasetInfo& info) {
  throw DataError(fmt::format(
      "{}: its units are labelled in another order than the model's, and a dense set is not "
      "put in order; write it with the units of the model",
      place(info)));
}

}  // namespace norn
