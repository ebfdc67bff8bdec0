// SPDX-License-Identifier: Apache-2.0
// Preparation of sparse batches, and dropout masks.

#include "kernels/cpu/families.h"
#include "kernels/cpu/mask_row.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

constexpr Index kRowsPerTask = 16;
constexpr Index kMaskedPerTask = 1 << 15;  // elements

template <typename T>
void grow(Buffer<T>& buffer, Index size) {
  if (buffer.size() < size) buffer = Buffer<T>(size + size / 4);
}

/// Calls keep(entry) for the entries of a row that denoising leaves in.
template <typename Keep>
void for_kept_entries(const InputPreparation& preparation, Index example, Index entries,
                      const Keep& keep) {
  const std::uint64_t row = std::uint64_t(example) ^ (std::uint64_t(preparation.epoch) << 40);
  for (Index first = 0; first < entries; first += 4) {
    const Philox::Block block = preparation.random.block(std::uint64_t(first) >> 2, row);
    const Index count = std::min<Index>(4, entries - first);
    for (Index i = 0; i < count; ++i)
      if (Philox::uniform(block.word[i]) >= preparation.denoising) keep(first + i);
  }
}

/// A stored entry, times the weight of its feature.
double value_of(const CsrView& x, const InputPreparation& preparation, RowOffset i) {
  const double value = x.value ? double(x.value[i]) : 1.0;
  if (preparation.feature_weight.empty()) return value;
  return value * double(preparation.feature_weight[Index(x.column[i])]);
}

/// The norm of a row's values, summed in stored order in float64; 1 for rows without length.
double norm_of(const CsrView& x, const InputPreparation& preparation, Index r) {
  const RowOffset begin = x.row_begin[r], end = x.row_begin[r + 1];
  const bool all_ones = !x.value && preparation.feature_weight.empty();
  double squares = all_ones ? double(end - begin) : 0.0;
  for (RowOffset i = begin; i < end && !all_ones; ++i) {
    const double value = value_of(x, preparation, i);
    squares += value * value;
  }
  return squares > 0.0 ? std::sqrt(squares) : 1.0;
}

class CpuBatch final : public BatchKernels {
 public:
  explicit CpuBatch(Executor& executor) : executor_(executor) {}

 private:
  void do_gather(CsrView stored, VectorView<const Index> row, Index entries,
                 CsrBuffer& gathered) override {
    gathered.rows = row.size;
    gathered.cols = stored.cols;
    gathered.entry_limit = entries;
    gathered.has_values = stored.value != nullptr;
    grow(gathered.row_begin, row.size + 1);
    grow(gathered.column, entries);
    if (gathered.has_values) grow(gathered.value, entries);
    RowOffset* begin = gathered.row_begin.data();
    begin[0] = 0;
    for (Index r = 0; r < row.size; ++r)
      begin[r + 1] = begin[r] + stored.row_begin[row[r] + 1] - stored.row_begin[row[r]];
    executor_.for_ranges(row.size, kRowsPerTask, [&](Index first, Index end, int) {
      for (Index r = first; r < end; ++r) {
        const RowOffset from = stored.row_begin[row[r]];
        const Index count = begin[r + 1] - begin[r];
        std::copy_n(stored.column + from, count, gathered.column.data() + begin[r]);
        if (gathered.has_values)
          std::copy_n(stored.value + from, count, gathered.value.data() + begin[r]);
      }
    });
  }

  void do_gather(MatrixView<const float> stored, VectorView<const Index> row,
                 MatrixView<float> x) override {
    executor_.for_ranges(x.rows, kRowsPerTask, [&](Index first, Index end, int) {
      for (Index r = first; r < end; ++r) std::copy_n(stored.row(row[r]), x.cols, x.row(r));
    });
  }

  void do_find_runs(CsrView x, const ColumnRuns& runs, int* begin) override {
    const Index starts = ColumnRuns::runs_of(runs.columns.count()) + 1;
    executor_.for_ranges(runs.stride, kRowsPerTask, [&](Index first, Index end, int) {
      for (Index r = first; r < end; ++r) {
        const Column* row = r < x.rows ? x.column + x.row_begin[r] : nullptr;
        const Column* row_end = r < x.rows ? x.column + x.row_begin[r + 1] : nullptr;
        const Column* entry = row;
        for (Index i = 0; i < starts; ++i) {
          const Index column =
              std::min(runs.columns.begin + i * ColumnRuns::kWidth, runs.columns.end);
          entry = std::lower_bound(entry, row_end, column,
                                   [](Column a, Index b) { return Index(a) < b; });
          begin[i * runs.stride + r] = int(entry - row);
        }
      }
    });
  }

  void do_prepare(CsrView x, VectorView<const float> weight, VectorView<const Index> example,
                  const InputPreparation& preparation, CsrBuffer& prepared) override {
    const bool denoise = preparation.denoising > 0.0f;
    prepared.rows = x.rows;
    prepared.cols = x.cols;
    prepared.entry_limit = x.entry_limit;
    prepared.has_values = x.value || !weight.empty() || !preparation.feature_weight.empty() ||
                          preparation.normalise_l2 || denoise;
    grow(prepared.row_begin, x.rows + 1);
    find_rows(x, example, preparation, prepared.row_begin.data());
    const RowOffset* begin = prepared.row_begin.data();
    grow(prepared.column, begin[x.rows]);
    if (prepared.has_values) grow(prepared.value, begin[x.rows]);
    executor_.for_ranges(x.rows, kRowsPerTask, [&](Index first, Index end, int) {
      for (Index r = first; r < end; ++r) {
        const double norm = preparation.normalise_l2 ? norm_of(x, preparation, r) : 1.0;
        const double given = weight.empty() ? 1.0 : double(weight[r]);
        const double factor = given / (norm * (1.0 - double(preparation.denoising)));
        write_row(x, r, factor, denoise ? example[r] : 0, preparation, prepared);
      }
    });
  }

  void do_prepare_dense(MatrixView<const float> data, VectorView<const float> weight,
                        bool normalise_l2, MatrixView<float> x) override {
    executor_.for_ranges(x.rows, kRowsPerTask, [&](Index first, Index end, int) {
      for (Index r = first; r < end; ++r) {
        double factor = weight.empty() ? 1.0 : double(weight[r]);
        double squares = 0.0;
        if (normalise_l2)
          for (Index c = 0; c < data.cols; ++c) squares += double(data(r, c)) * double(data(r, c));
        if (squares > 0.0) factor /= std::sqrt(squares);
        for (Index c = 0; c < data.cols; ++c) x(r, c) = float(factor * double(data(r, c)));
        std::fill(x.row(r) + data.cols, x.row(r) + x.cols, 0.0f);
      }
    });
  }

  /// Where each row of the prepared batch begins.
  void find_rows(CsrView x, VectorView<const Index> example, const InputPreparation& preparation,
                 RowOffset* begin) {
    executor_.for_ranges(x.rows, kRowsPerTask, [&](Index first, Index end, int) {
      for (Index r = first; r < end; ++r) {
        const Index entries = x.row_begin[r + 1] - x.row_begin[r];
        Index kept = preparation.denoising > 0.0f ? 0 : entries;
        if (preparation.denoising > 0.0f)
          for_kept_entries(preparation, example[r], entries, [&](Index) { ++kept; });
        begin[r + 1] = kept;
      }
    });
    begin[0] = 0;
    for (Index r = 0; r < x.rows; ++r) begin[r + 1] += begin[r];
  }

  static void write_row(const CsrView& x, Index r, double factor, Index example,
                        const InputPreparation& preparation, CsrBuffer& prepared) {
    const RowOffset from = x.row_begin[r];
    const Index entries = x.row_begin[r + 1] - from;
    RowOffset to = prepared.row_begin.data()[r];
    const auto copy = [&](Index i) {
      prepared.column.data()[to] = x.column[from + i];
      if (prepared.has_values)
        prepared.value.data()[to] = float(value_of(x, preparation, from + i) * factor);
      ++to;
    };
    if (preparation.denoising > 0.0f)
      for_kept_entries(preparation, example, entries, copy);
    else
      for (Index i = 0; i < entries; ++i) copy(i);
  }

  void do_mask(const DropoutMask& mask, MatrixView<const float> y, MatrixView<float> out) override {
    if (y.empty()) return;
    const Index chunk = std::max<Index>(1, kMaskedPerTask / y.cols);
    executor_.for_ranges(y.rows, chunk, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r) mask_row(mask, r, y.cols, y.row(r), out.row(r));
    });
  }

  Executor& executor_;
};

}  // namespace

std::unique_ptr<BatchKernels> make_cpu_batch(Executor& executor) {
  return std::make_unique<CpuBatch>(executor);
}

}  // namespace norn
