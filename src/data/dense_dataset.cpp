// SPDX-License-Identifier: Apache-2.0
// Data sets whose every unit is stored.

#include "dataset_items.h"
#include "norn/base/error.h"
#include "stored_dataset.h"
#include "stored_values.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

constexpr Index kLongestRead = Index(1) << 22;  // elements

class DenseDataset final : public StoredDataset {
 public:
  DenseDataset(DatasetInfo info, Residency residency, Role role)
      : StoredDataset(std::move(info), role),
        file_(std::make_unique<NetcdfFile>(info_.file, NetcdfFile::Mode::read)) {
    read_index_and_weights(*file_);
    source_.emplace(*file_, info_, item("data", info_.number), role_);
    if (residency == Residency::stream) return;
    values_ = Buffer<float>(info_.unique_examples * info_.width());
    for (Index first = 0; first < values_.size(); first += kLongestRead) {
      const Index count = std::min(kLongestRead, values_.size() - first);
      read(first, {values_.data() + first, std::size_t(count)});
    }
    source_.reset();
    file_.reset();
  }

  RowOffset row_entries() const override { return 0; }

 private:
  RowOffset entries_of(std::span<const Index>) const override { return 0; }

  void fill(std::span<const Index> rows, HostBatch& batch) override {
    const Index width = info_.width();
    if (batch.dense.cols() != width || batch.dense.rows() < batch.examples) {
      batch.dense = Matrix<float>(batch.examples, width);
    }
    const MatrixView<float> target = batch.dense.view();
    if (!file_) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::copy_n(values_.data() + rows[i] * width, width, target.row(Index(i)));
      }
      return;
    }
    std::vector<RowExtent> extents;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      extents.push_back({rows[i] * width, (rows[i] + 1) * width, i});
    }
    for (const ReadRun& run : plan_reads(extents, 0, kLongestRead)) {
      workspace_.resize(std::size_t(run.end - run.begin));
      read(run.begin, workspace_);
      for (std::size_t i = run.first_row; i < run.last_row; ++i) {
        std::copy_n(workspace_.data() + (extents[i].begin - run.begin), width,
                    target.row(Index(extents[i].position)));
      }
    }
  }

  void read(Index first, std::span<float> values) {
    source_->read(first, values);
    check(first, values);
  }

  void check(Index first, std::span<const float> values) const {
    const auto wrong = first_not_finite(values);
    if (!wrong) return;
    throw DataError(
        fmt::format("{}: {}: unit {} is {}, expected a finite number; correct the data "
                    "and write the file again",
                    place(info_), row_name((first + *wrong) / info_.width()),
                    (first + *wrong) % info_.width(), values[std::size_t(*wrong)]));
  }

  Buffer<float> values_;  // [stored rows x width] when in memory
  std::unique_ptr<NetcdfFile> file_;
  std::optional<StoredValues> source_;
  std::vector<float> workspace_;
};

}  // namespace

std::unique_ptr<Dataset> open_dense_dataset(const DatasetInfo& info, Residency residency,
                                            Role role) {
  return std::make_unique<DenseDataset>(info, residency, role);
}

}  // namespace norn
