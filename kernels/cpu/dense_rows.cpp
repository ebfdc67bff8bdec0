// SPDX-License-Identifier: Apache-2.0
// Dense products of our own for predictions: BLAS rounds a row by where it stands among others, and
// by how many there are. Every element here is one chain of fused multiply-adds, so that neither
// neighbours nor threads nor the kind of processor have a say.
#include "kernels/cpu/dense_rows.h"

#include "src/tensor/block_partition.h"

#include <algorithm>

namespace norn {
namespace {

constexpr Index kPanelElements = 8192;  ///< 32 KiB, which stay in the first cache
constexpr Index kRowRun = 512;          ///< rows for which a panel is packed once
constexpr Index kMostUnits = 512;       ///< of a task
constexpr Index kTasksOfLane = 4;

/// The second operand: rows of it are units, or sources.
struct Weights {
  MatrixView<const float> w;
  bool rows_are_units;

  Index units() const { return rows_are_units ? w.rows : w.cols; }
  Index depth() const { return rows_are_units ? w.cols : w.rows; }
  void pack(const RowProductInstructions& by, Range units, Range depth, float* panel) const {
    if (rows_are_units)
      by.pack_units(w.row(units.begin) + depth.begin, w.stride, units.count(), depth.count(),
                    panel);
    else
      by.pack_sources(w.row(depth.begin) + units.begin, w.stride, units.count(), depth.count(),
                      panel);
  }
};

class CpuDenseRows final : public DenseProducts {
 public:
  CpuDenseRows(Executor& executor, const RowProductInstructions& instructions)
      : executor_(executor), by_(instructions) {}

 private:
  void do_multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                              Existing existing, Index) override {
    if (existing == Existing::overwrite) fill(z, nullptr);
    add(x.values, {w.values, true}, z);
  }

  void do_affine(DenseOperand x, DenseOperand w, VectorView<const float> bias, MatrixView<float> z,
                 Index) override {
    fill(z, bias.data);
    add(x.values, {w.values, true}, z);
  }

  void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) override {
    fill(dx, nullptr);
    add(delta.values, {w.values, false}, dx);
  }

  /// Every row becomes `row`, or zero.
  void fill(MatrixView<float> z, const float* row) {
    executor_.for_ranges(z.rows, 16, [&](Index begin, Index end, int) {
      for (Index r = begin; r < end; ++r)
        if (row)
          std::copy_n(row, z.cols, z.row(r));
        else
          std::fill_n(z.row(r), z.cols, 0.0f);
    });
  }

  /// z += x * w. How tasks are cut has no say in the bits.
  void add(MatrixView<const float> x, const Weights& w, MatrixView<float> z) {
    if (z.empty() || w.depth() == 0) return;
    const Index panels = (z.cols + by_.panel_units - 1) / by_.panel_units;
    const Index row_runs = (z.rows + kRowRun - 1) / kRowRun;
    const Index shared_out = panels * row_runs / (kTasksOfLane * executor_.lanes());
    const Index each =
        by_.panel_units *
        std::clamp<Index>(shared_out, 1, std::max<Index>(1, kMostUnits / by_.panel_units));
    const Index unit_runs = (z.cols + each - 1) / each;
    executor_.for_each(unit_runs * row_runs, [&](Index task, int) {
      const Index row = task / unit_runs * kRowRun, unit = task % unit_runs * each;
      add_part(x, w, z, {row, std::min(row + kRowRun, z.rows)},
               {unit, std::min(unit + each, z.cols)});
    });
  }

  void add_part(MatrixView<const float> x, const Weights& w, MatrixView<float> z, Range rows,
                Range units) {
    Index few_units = 0, few_depth = 0;  // that are done without packing
    if (rows.count() <= FewRows::kMost && w.rows_are_units) {
      few_units = units.count() / by_.vector * by_.vector;
      few_depth = w.depth() / by_.vector * by_.vector;
      by_.add_few({x.row(rows.begin), x.stride, w.w.row(units.begin), w.w.stride, few_depth,
                   z.row(rows.begin) + units.begin, z.stride, rows.count(), few_units});
    }
    const Index whole = units.begin + few_units;
    add_packed(x, w, z, rows, {units.begin, whole}, {few_depth, w.depth()});
    add_packed(x, w, z, rows, {whole, units.end}, {0, w.depth()});
  }

  void add_packed(MatrixView<const float> x, const Weights& w, MatrixView<float> z, Range rows,
                  Range all, Range deep) {
    alignas(64) float panel[kPanelElements];
    const Index run = kPanelElements / by_.panel_units;
    for (Index u = all.begin; u < all.end; u += by_.panel_units) {
      const Range units{u, std::min(u + by_.panel_units, all.end)};
      for (Index k = deep.begin; k < deep.end; k += run) {
        const Range depth{k, std::min(k + run, deep.end)};
        w.pack(by_, units, depth, panel);
        by_.add({x.row(rows.begin) + k, x.stride, panel, depth.count(), z.row(rows.begin) + u,
                 z.stride, rows.count(), units.count()});
      }
    }
  }

  Executor& executor_;
  const RowProductInstructions& by_;
};

}  // namespace

std::vector<const RowProductInstructions*> row_product_instructions() {
  std::vector<const RowProductInstructions*> usable;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_fma = __builtin_cpu_supports("fma");
  if (has_fma && __builtin_cpu_supports("avx512f") && row_product_avx512())
    usable.push_back(row_product_avx512());
  if (has_fma && __builtin_cpu_supports("avx2") && row_product_avx2())
    usable.push_back(row_product_avx2());
#endif
  usable.push_back(row_product_plain());
  return usable;
}

std::unique_ptr<DenseProducts> make_cpu_dense_rows(Executor& executor,
                                                   const RowProductInstructions& instructions) {
  return std::make_unique<CpuDenseRows>(executor, instructions);
}

}  // namespace norn
