// SPDX-License-Identifier: Apache-2.0
// Data sets whose values are weights of their entries.
#include "src/engine/data/weighted_entries.h"

#include "norn/base/error.h"
#include "src/base/text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace norn {
namespace {

constexpr Index kEntriesAtOnce = Index(1) << 22;  // that are looked at
constexpr std::size_t kCounts = 1024;             // whose weights are computed once

class WeightedEntries final : public Dataset {
 public:
  WeightedEntries(std::unique_ptr<Dataset> set, const EntryWeights& weights, std::string layer)
      : Dataset(set->info()), set_(std::move(set)), weights_(weights), layer_(std::move(layer)) {
    for (std::size_t count = 0; count < kCounts; ++count)
      of_count_.push_back(weights_.weight(float(count)));
    info_.sparse = true;  // which class labels are not
    info_.boolean = false;
    info_.type = ElementType::float32;
    check_all();
  }

  void gather(std::span<const Index> examples, HostBatch& batch) override {
    set_->gather(examples, batch);
    weigh(batch);
    refuse_any(batch.sparse.row_begin.data()[batch.examples], "example",
               [&](Index row) { return examples[std::size_t(row)]; });
  }
  void locate(std::span<const Index> examples, HostBatch& batch) override {
    set_->locate(examples, batch);
  }
  void read_rows(Index first, Index count, HostBatch& batch) override {
    set_->read_rows(first, count, batch);
    weigh(batch);
  }
  RowOffset row_entries() const override { return set_->row_entries(); }

 private:
  struct Fault {
    Index row = 0;  // of the rows that were looked at
    Column column = 0;
    float value = 0.0f;
    float weight = 0.0f;
  };

  // Values become weights; those that cannot are counted.
  void weigh(HostBatch& batch) {
    CsrBuffer& csr = batch.sparse;
    wrong_ = 0;
    first_wrong_.reset();
    give_values(csr);
    for (Index row = 0; row < batch.examples; ++row)
      for (RowOffset i = csr.row_begin.data()[row]; i < csr.row_begin.data()[row + 1]; ++i) {
        float& value = csr.value.data()[i];
        const float weight = weight_of(value);
        if (!(value >= 0.0f) || !std::isfinite(weight)) {
          ++wrong_;
          if (!first_wrong_) first_wrong_ = Fault{row, csr.column.data()[i], value, weight};
        }
        value = weight;
      }
  }

  static void give_values(CsrBuffer& csr) {
    if (csr.has_values) return;
    const RowOffset entries = csr.row_begin.data()[csr.rows];
    if (csr.value.size() < entries) csr.value = Buffer<float>(entries + entries / 4);
    std::fill_n(csr.value.data(), entries, 1.0f);
    csr.has_values = true;
  }

  float weight_of(float value) const {
    if (value >= 0.0f && value < float(kCounts)) {
      const auto count = std::size_t(value);
      if (float(count) == value) return of_count_[count];
    }
    return value >= 0.0f ? weights_.weight(value) : 0.0f;
  }

  void check_all() {
    const Index rows = info_.unique_examples;
    const Index step =
        std::max<Index>(1, kEntriesAtOnce * rows / std::max<Index>(1, set_->row_entries()));
    HostBatch part;
    RowOffset wrong = 0;
    std::optional<Fault> first_wrong;
    for (Index first = 0; first < rows; first += step) {
      read_rows(first, std::min(step, rows - first), part);
      wrong += wrong_;
      if (first_wrong || !first_wrong_) continue;
      first_wrong = first_wrong_;
      first_wrong->row += first;
    }
    wrong_ = wrong;
    first_wrong_ = first_wrong;
    refuse_any(set_->row_entries(), info_.indexed ? "stored row" : "example",
               [](Index row) { return row; });
  }

  // name(row): the number by which it is known.
  template <typename Name>
  void refuse_any(RowOffset entries, const char* row, const Name& name) const {
    if (!first_wrong_) return;
    const Fault& fault = *first_wrong_;
    const std::string what =
        fault.value >= 0.0f
            ? fmt::format("{}, too large a number, for its value {}", fault.weight, fault.value)
            : fmt::format("{} by its value, expected at least 0", fault.value);
    throw DataError(fmt::format(
        "{}: {} {}: the weight of column {} is {}; {} of {} entries are such, and layer \"{}\" "
        "reads values as weights, EntryWeights {}: correct the data, or remove the key",
        place(info_), row, name(fault.row), fault.column, what, with_thousands(wrong_),
        with_thousands(entries), layer_, name_of(weights_.scheme)));
  }

  std::unique_ptr<Dataset> set_;
  EntryWeights weights_;
  std::string layer_;
  std::vector<float> of_count_;  // by value, of those that are small whole numbers
  RowOffset wrong_ = 0;          // of the rows that were looked at last
  std::optional<Fault> first_wrong_;
};

}  // namespace

std::unique_ptr<Dataset> weigh_entries(std::unique_ptr<Dataset> set, const EntryWeights& weights,
                                       const std::string& layer) {
  require(set->info().gives_sparse_batches(), "weigh_entries: a set of sparse batches");
  return std::make_unique<WeightedEntries>(std::move(set), weights, layer);
}

}  // namespace norn
