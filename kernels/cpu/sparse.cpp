// SPDX-License-Identifier: Apache-2.0
// Products of a sparse batch with dense weights, by rows of the batch and by touched units.

#include "kernels/cpu/families.h"
#include "kernels/cpu/sparse_parts.h"
#include "src/tensor/block_partition.h"

#include <algorithm>
#include <array>
#include <vector>

namespace norn {
namespace {

/// Multiplications that make a task worth its start.
constexpr Index kTaskWork = 1 << 17;

/// Examples of a tile of multiply_by_rows(): of so many, whatever there are, so that all have the
/// same instructions.
constexpr Index kTileRows = 16;

// tile [columns of x x kTileRows]; zeros for rows that there are not.
void transpose_tile(MatrixView<const float> x, float* tile) {
  for (Index c = 0; c < x.cols; ++c)
    for (Index r = 0; r < kTileRows; ++r) tile[c * kTileRows + r] = r < x.rows ? x(r, c) : 0.0f;
}

class CpuSparse final : public SparseKernels {
 public:
  explicit CpuSparse(Executor& executor)
      : executor_(executor), tiles_(std::size_t(executor.lanes())) {}

 private:
  void do_multiply(CsrView x, MatrixView<const float> w, VectorView<const float> bias,
                   MatrixView<float> z) override {
    const Index row_work = std::max<Index>(1, x.entries() / x.rows * z.cols);
    const Index chunk = std::clamp<Index>(kTaskWork / row_work, 1, 64);
    executor_.for_ranges(x.rows, chunk, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r) {
        if (bias.size > 0) std::copy_n(bias.data, bias.size, z.row(r));
        for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; i += row_sum::kTileRows)
          add_tile(x, {i, std::min(i + row_sum::kTileRows, x.row_begin[r + 1])}, w, z.row(r));
      }
    });
  }

  // Entries of one example. Those behind them are prefetched, of the next example as well.
  static void add_tile(const CsrView& x, Range entries, MatrixView<const float> w, float* z) {
    const Index last = std::min(entries.end + row_sum::kPrefetchRows, x.row_begin[x.rows]);
    for (Index i = entries.begin + row_sum::kPrefetchRows; i < last; ++i)
      row_sum::prefetch(w.row(Index(x.column[i])), w.cols);
    const RowList<Column> rows{x.column + entries.begin,
                               x.value ? x.value + entries.begin : nullptr, entries.count()};
    add_rows(rows, w, 0, w.cols, z);
  }

  // Some examples at a time, transposed, so that an entry of f meets all of them at once.
  void do_multiply_by_rows(MatrixView<const float> x, CsrView f, Existing existing,
                           MatrixView<float> z) override {
    executor_.for_ranges(x.rows, kTileRows, [&](Index begin, Index end, int lane) {
      const Index count = end - begin;
      std::vector<float>& tile = tiles_[std::size_t(lane)];
      tile.resize(std::size_t(std::max<Index>(1, x.cols * kTileRows)));
      transpose_tile(x.row_range(begin, count), tile.data());
      for (Index unit = 0; unit < f.rows; ++unit) {
        std::array<float, std::size_t(kTileRows)> sum{};
        for (RowOffset i = f.row_begin[unit]; i < f.row_begin[unit + 1]; ++i) {
          const float value = f.value ? f.value[i] : 1.0f;
          const float* of_column = tile.data() + Index(f.column[i]) * kTileRows;
          for (Index r = 0; r < kTileRows; ++r) sum[std::size_t(r)] += value * of_column[r];
        }
        float* to = z.row(begin) + unit;
        if (existing == Existing::add)
          for (Index r = 0; r < count; ++r) to[r * z.stride] += sum[std::size_t(r)];
        else
          for (Index r = 0; r < count; ++r) to[r * z.stride] = sum[std::size_t(r)];
      }
    });
  }

  void do_transpose(CsrView x, TransposedBatch& transposed) override {
    transpose_batch(executor_, x, transposed);
  }

  void do_gradient(const TransposedBatch& xt, DenseOperand delta, float scale,
                   MatrixView<float> g) override {
    const Index chunk = std::max<Index>(1, kTaskWork / g.cols);
    executor_.for_ranges(g.rows, chunk, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r) std::fill_n(g.row(r), g.cols, 0.0f);
    });
    for_balanced_units(executor_, xt, g.cols, 1, [&](Index begin, Index end) {
      for (Index t = begin; t < end; ++t)
        unit_gradient(xt, t, delta.values, scale, 0, g.cols, g.row(Index(xt.unit.data()[t])));
    });
  }

  void do_update_rows(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                      const TransposedBatch& xt, DenseOperand delta, float scale,
                      const RowState& rows) override {
    update_touched_rows(executor_, tables_, rule, schedule, step, xt, delta.values, scale, rows);
  }

  void do_mark_done(const TransposedBatch& xt, std::int64_t step,
                    VectorView<std::int64_t> steps_done) override {
    for (Index t = 0; t < xt.touched; ++t) steps_done[Index(xt.unit.data()[t])] = step + 1;
  }

  void do_catch_up(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                   const RowState& rows) override {
    catch_up_rows(executor_, tables_, rule, schedule, step, nullptr, rows.w.rows, rows);
  }

  void do_catch_up_batch(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                         const TransposedBatch& xt, const RowState& rows) override {
    catch_up_rows(executor_, tables_, rule, schedule, step, xt.unit.data(), xt.touched, rows);
  }

  Executor& executor_;
  StepTables tables_;
  std::vector<std::vector<float>> tiles_;  // by lane
};

}  // namespace

void for_balanced_units(Executor& executor, const TransposedBatch& xt, Index cols, Index unit_cost,
                        const std::function<void(Index first, Index end)>& task) {
  if (xt.touched == 0) return;
  const RowOffset* begin = xt.begin.data();
  const Index work = begin[xt.touched] + unit_cost * xt.touched;
  const Index share = std::max<Index>(unit_cost, kTaskWork / std::max<Index>(1, cols));
  // The first unit t whose predecessors' work is at least `goal`.
  const auto first_from = [&](Index goal) {
    Index low = 0, high = xt.touched;
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (begin[middle] + unit_cost * middle < goal)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  };
  executor.for_each((work + share - 1) / share, [&](Index run, int) {
    const Index first = first_from(run * share), end = first_from((run + 1) * share);
    if (first < end) task(first, end);
  });
}

std::unique_ptr<SparseKernels> make_cpu_sparse(Executor& executor) {
  return std::make_unique<CpuSparse>(executor);
}

}  // namespace norn
