// SPDX-License-Identifier: Apache-2.0
// Dense products of our own for predictions: BLAS rounds a row by where it stands among others, and
// by how many there are. Every element here is a sum of its own in one order (row_product.h), so
// that neither neighbours nor threads nor the kind of processor have a say.
#include "kernels/cpu/dense_rows.h"

#include "src/tensor/block_partition.h"

#include <algorithm>

namespace norn {
namespace {

constexpr Index kPanelRows = kChains * chain_pitch(kDepthRun);
constexpr Index kPackedUnits = 64;  ///< of all panels together
constexpr Index kRowRun = 512;      ///< rows for which a panel is packed once
constexpr Index kMostUnits = 512;   ///< of a task
constexpr Index kTasksOfLane = 4;
/// Less depth than that pays for packing from fewer rows on.
constexpr Index kShortDepth = 128;
constexpr Index kFewOfShortDepth = 4;
constexpr Index kAhead = 4096;  ///< 16 KiB: what is fetched from memory comes in time
constexpr Index kUncached = 2'000'000;
constexpr Index kShortRow = 256;
constexpr Index kPartOfMore = 1 << 16;

/// How far ahead weights are fetched, where a few rows read them once. A product may be a block of
/// a layer that is in no cache, though it would be in one itself. Long rows the processor fetches
/// by itself.
Index ahead_of(Index units, Index depth) {
  const Index from = depth <= kShortRow ? kPartOfMore : kUncached;
  return units * depth < from ? 0 : kAhead;
}

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
  /// What a result is before the product is added.
  struct Start {
    bool is_kept = false;
    const float* row = nullptr;  ///< of every example; null: zeros
  };

  void do_multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                              Existing existing, Index) override {
    add(x.values, {w.values, true}, z, {existing == Existing::add});
  }

  void do_affine(DenseOperand x, DenseOperand w, VectorView<const float> bias, MatrixView<float> z,
                 Index) override {
    add(x.values, {w.values, true}, z, {false, bias.data});
  }

  void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) override {
    add(delta.values, {w.values, false}, dx, {});
  }

  /// z = start + x * w. How tasks are cut has no say in the bits.
  void add(MatrixView<const float> x, const Weights& w, MatrixView<float> z, const Start& start) {
    if (z.empty()) return;
    const Index panels = (z.cols + by_.panel_units - 1) / by_.panel_units;
    const Index row_runs = (z.rows + kRowRun - 1) / kRowRun;
    const Index shared_out = panels * row_runs / (kTasksOfLane * executor_.lanes());
    const Index each =
        by_.panel_units *
        std::clamp<Index>(shared_out, 1, std::max<Index>(1, kMostUnits / by_.panel_units));
    const Index unit_runs = (z.cols + each - 1) / each;
    executor_.for_each(unit_runs * row_runs, [&](Index task, int) {
      const Index row = task / unit_runs * kRowRun, unit = task % unit_runs * each;
      const Range rows{row, std::min(row + kRowRun, z.rows)};
      const Range units{unit, std::min(unit + each, z.cols)};
      begin_part(z, rows, units, start);
      add_part(x, w, z, rows, units);
    });
  }

  static void begin_part(MatrixView<float> z, Range rows, Range units, const Start& start) {
    if (start.is_kept) return;
    for (Index r = rows.begin; r < rows.end; ++r) {
      float* row = z.row(r) + units.begin;
      if (start.row)
        std::copy_n(start.row + units.begin, units.count(), row);
      else
        std::fill_n(row, units.count(), 0.0f);
    }
  }

  void add_part(MatrixView<const float> x, const Weights& w, MatrixView<float> z, Range rows,
                Range units) {
    const Index few = w.depth() < kShortDepth ? kFewOfShortDepth : by_.few_rows;
    if (rows.count() <= few && w.rows_are_units)
      by_.add_few({x.row(rows.begin), x.stride, w.w.row(units.begin), w.w.stride, w.depth(),
                   z.row(rows.begin) + units.begin, z.stride, rows.count(), units.count(),
                   ahead_of(w.units(), w.depth())});
    else
      add_packed(x, w, z, rows, units);
  }

  void add_packed(MatrixView<const float> x, const Weights& w, MatrixView<float> z, Range rows,
                  Range all) {
    alignas(64) float panels[kPanelRows * kPackedUnits];
    for (Index u = all.begin; u < all.end; u += kPackedUnits) {
      const Range units{u, std::min(u + kPackedUnits, all.end)};
      for (Index k = 0; k < w.depth(); k += kDepthRun) {
        const Range depth{k, std::min(k + kDepthRun, w.depth())};
        for_each_panel(units, [&](Range of_panel, Index first) {
          w.pack(by_, of_panel, depth, panels + first);
        });
        for (Index r = rows.begin; r < rows.end; r += by_.panel_rows) {
          const Index count = std::min(by_.panel_rows, rows.end - r);
          for_each_panel(units, [&](Range of_panel, Index first) {
            by_.add({x.row(r) + k, x.stride, panels + first, depth.count(),
                     z.row(r) + of_panel.begin, z.stride, count, of_panel.count()});
          });
        }
      }
    }
  }

  /// Calls use(units, where they begin) for each panel of units that are packed.
  template <typename Use>
  void for_each_panel(Range units, const Use& use) const {
    for (Index u = units.begin; u < units.end; u += by_.panel_units)
      use({u, std::min(u + by_.panel_units, units.end)}, (u - units.begin) * kPanelRows);
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
