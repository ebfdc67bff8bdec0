// SPDX-License-Identifier: Apache-2.0
// Dense products by cuBLASLt. Tensor cores want rows of 16 bytes: edges that are none are products
// of their own. Equal blocks are one call. Where rows stand alone, nothing is chosen by how many
// there are.
#include "kernels/dense.h"

#include "kernels/cuda/dense/dense_plan.h"
#include "kernels/cuda/dense/many_rows.h"
#include "kernels/cuda/dense/transpose.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/select/row_scores.h"
#include "kernels/pointwise.h"

#include <optional>

namespace norn::cuda {
namespace {

/// The extents of a product in the library's view: result [columns x rows], sums over depth.
struct Extents {
  Index columns = 0;
  Index rows = 0;
  Index depth = 0;
};

Index round_up(Index value, Index multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
Index round_down(Index value, Index multiple) {
  return value / multiple * multiple;
}

/// Units of one call: some blocks, or units that are no block's.
struct Run {
  Index first = 0;
  Index units = 0;
  bool in_blocks = false;
  Along along(Along blocks) const { return in_blocks ? blocks : Along::nothing; }
};

/// Calls body(run) for equal blocks, up to `most` at a time, and for what is left behind them. A
/// block whose product is large fills the device: it is a product like any other.
template <typename Body>
void for_runs(Index units, Index block, Index most, double multiplications_of_a_unit,
              const Body& body) {
  constexpr double kLargeProduct = double(Index(1) << 32);
  const Index each = block > 0 ? block : std::max<Index>(units, 1);
  const bool alone = block == 0 || double(each) * multiplications_of_a_unit >= kLargeProduct;
  const Index full = units / each;
  for (Index b = 0; b < full;) {
    const Index blocks = alone ? 1 : std::min(most, full - b);
    body(Run{b * each, blocks * each, !alone});
    b += blocks;
  }
  if (full * each < units) body(Run{full * each, units - full * each, false});
}

class CudaDense final : public DenseKernels {
 public:
  explicit CudaDense(const Stream& stream)
      : CudaDense(stream, std::make_shared<DensePlans>(stream), 0) {
    rows_.reset(new CudaDense(stream, shared_plans_, kPlannedRows));
    many_rows_.reset(new CudaDense(stream, shared_plans_, kPlannedWindows));
  }
  DenseProducts& by_row() override { return rows_ ? *rows_ : *this; }
  DenseProducts& by_many_rows() { return *many_rows_; }

 private:
  CudaDense(const Stream& stream, std::shared_ptr<DensePlans> plans, Index planned_rows)
      : stream_(stream),
        pointwise_(make_pointwise(stream)),
        first_(stream.memory),
        second_(stream.memory),
        first_transposed_(stream.memory),
        second_transposed_(stream.memory),
        shared_plans_(std::move(plans)),
        plans_(*shared_plans_),
        planned_rows_(planned_rows) {}

  // As many as choices are made for.
  double rows_of(const MatrixView<float>& result) const {
    return double(planned_rows_ > 0 ? planned_rows_ : result.rows);
  }

  Side side_of(const DenseOperand& operand, bool transposed, Workspace<Bfloat16>& workspace) {
    if (!plans_.rounds()) {
      const MatrixView<const float>& m = operand.values;
      return {m.data, m.cols, m.rows, m.stride, alignment_of(m.data, m.stride), transposed};
    }
    MatrixView<const Bfloat16> m = operand.bf16;
    if (m.data == nullptr) {
      // Rows of a copy are padded so that they stay aligned.
      const Index stride = round_up(operand.cols(), 8);
      const MatrixView<Bfloat16> copy{workspace.reserve(operand.rows() * stride), operand.rows(),
                                      operand.cols(), stride};
      pointwise_->cast_to_bf16(operand.values, copy);
      m = copy;
    }
    return {m.data, m.cols, m.rows, m.stride, alignment_of(m.data, m.stride), transposed};
  }

  // The units of a run; of blocks along depth, those of the first one.
  Side units_of(const Side& all, bool along_rows, const Run& run, Index block, Index count) const {
    return all.units(along_rows, run.first, count, run.in_blocks ? block : 0,
                     plans_.element_bytes());
  }

  // What is left of the extents when only whole runs of 16 bytes count: all of them where that
  // would gain nothing. Along blocks nothing is cut: where they end would matter.
  Extents whole_runs(const DensePlans::Task& task, Extents all) const {
    constexpr double kLeastProduct = 1 << 24;
    const Side& a = task.a;
    const Side& b = task.b;
    if (stream_.precision == Precision::fp32 || a.alignment < 16 || b.alignment < 16 ||
        task.alignment() < 16 || multiplications(task) < kLeastProduct)
      return all;
    const Index run = 16 / plans_.element_bytes();
    const Index column_run = a.transposed ? 16 / Index(sizeof(float)) : run;
    Extents whole = all;
    if (task.along != Along::columns) whole.columns = round_down(all.columns, column_run);
    if (b.transposed && task.along != Along::rows) whole.rows = round_down(all.rows, run);
    if (a.transposed || !b.transposed) whole.depth = round_down(all.depth, run);
    return whole.columns == 0 || whole.rows == 0 || whole.depth == 0 ? all : whole;
  }

  static Extents extents(const DensePlans::Task& task) {
    return {task.result.cols, task.result.rows, task.b.transposed ? task.b.cols : task.b.rows};
  }
  // Of a product as it is planned.
  static double multiplications(const DensePlans::Task& task) {
    const Extents all = extents(task.planned());
    return double(all.columns) * double(all.rows) * double(all.depth);
  }

  void product(const DensePlans::Task& task) {
    const MatrixView<float>& result = task.result;
    if (result.empty()) return;
    const Extents all = extents(task);
    if (all.depth == 0) {
      if (task.keep != 0.0f) return;
      MatrixView<float> block = result;
      for (Index i = 0; i < task.blocks; ++i, block.data += task.step) fill_zero(block);
      return;
    }
    const Extents whole = whole_runs(task, all);
    const auto part_of = [&](Index column, Index columns, Index row, Index rows, Index k,
                             Index depth, bool begins) {
      if (columns == 0 || rows == 0 || depth == 0) return;
      const Index bytes = plans_.element_bytes();
      const bool a_transposed = task.a.transposed, b_transposed = task.b.transposed;
      DensePlans::Task part = task;
      part.a =
          task.a.part(!a_transposed, column, columns, bytes).part(a_transposed, k, depth, bytes);
      part.b = task.b.part(b_transposed, row, rows, bytes).part(!b_transposed, k, depth, bytes);
      part.result = result.row_range(row, rows).columns(column, columns);
      if (!begins) part.keep = 1.0f;
      part.bias = begins && task.bias != nullptr ? task.bias + column : nullptr;
      plans_.multiply(part);
    };
    part_of(0, whole.columns, 0, whole.rows, 0, whole.depth, true);
    part_of(0, whole.columns, 0, whole.rows, whole.depth, all.depth - whole.depth, false);
    part_of(whole.columns, all.columns - whole.columns, 0, whole.rows, 0, all.depth, true);
    part_of(0, all.columns, whole.rows, all.rows - whole.rows, 0, all.depth, true);
  }

  void fill_zero(MatrixView<float> m) {
    check(
        cudaMemset2DAsync(m.data, std::size_t(m.stride) * sizeof(float), 0,
                          std::size_t(m.cols) * sizeof(float), std::size_t(m.rows), stream_.stream),
        "cudaMemset2DAsync");
  }

  void multiply_transposed(DenseOperand x, DenseOperand w, const float* bias, MatrixView<float> z,
                           float keep, Index block) {
    const Side all = side_of(w, true, second_), source = side_of(x, false, first_);
    for_runs(z.cols, block, z.cols, rows_of(z) * double(x.cols()), [&](const Run& run) {
      DensePlans::Task task{units_of(all, false, run, block, run.units),
                            source,
                            z.columns(run.first, run.units),
                            1.0f,
                            keep,
                            bias ? bias + run.first : nullptr,
                            run.along(Along::columns),
                            block};
      task.planned_rows = planned_rows_;
      product(task);
    });
  }

  void do_multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                              Existing existing, Index block) override {
    if (z.empty()) return;
    multiply_transposed(x, w, nullptr, z, existing == Existing::add ? 1.0f : 0.0f, block);
  }

  void do_affine(DenseOperand x, DenseOperand w, VectorView<const float> bias, MatrixView<float> z,
                 Index block) override {
    if (z.empty()) return;
    if (planned_rows_ > 0 && x.bf16.data && w.bf16.data && fits_row_scores(x.bf16, w.bf16)) {
      write_row_scores(stream_, x.bf16, w.bf16, bias, z);
      return;
    }
    if (x.cols() > 0 && alignment_of(bias.data, block > 0 ? block : 4) == 16) {
      multiply_transposed(x, w, bias.data, z, 0.0f, block);
      return;
    }
    pointwise_->set_rows(bias, z);
    multiply_transposed(x, w, nullptr, z, 1.0f, block);
  }

  void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) override {
    if (dx.empty()) return;
    do_multiply_each(delta, w, 0, {&dx, 1});
  }

  void do_multiply_each(DenseOperand delta, DenseOperand w, Index block,
                        std::span<const MatrixView<float>> dx) override {
    if (dx.empty() || dx[0].empty()) return;
    if (w.rows() == 0) {  // sums of nothing
      for (const MatrixView<float>& part : dx) fill_zero(part);
      return;
    }
    const Side all_w = side_of(w, false, second_), all_deltas = side_of(delta, false, first_);
    const double each = rows_of(dx[0]) * double(dx[0].cols);
    const Index step = dx.size() > 1 ? dx[1].data - dx[0].data : round_up(dx[0].size(), 4);
    for_runs(w.rows(), block, kMostBlocks, each, [&](const Run& run) {
      const Index count = run.in_blocks ? block : run.units;
      DensePlans::Task task{units_of(all_w, false, run, block, count),
                            units_of(all_deltas, true, run, block, count),
                            dx[std::size_t(block > 0 ? run.first / block : 0)]};
      task.planned_rows = planned_rows_;
      if (run.in_blocks) {
        task.along = Along::depth;
        task.block = block;
        task.blocks = run.units / block;
        task.step = step;
      }
      // Zeros instead of an edge that would be a product of its own.
      const Index depth = round_up(count, 16 / plans_.element_bytes());
      const Index zeros =
          run.first + count == w.rows() ? std::min(w.zero_rows, delta.zero_cols) : 0;
      if (plans_.rounds() && !run.in_blocks && count > 0 && count + zeros >= depth)
        task.a.cols = task.b.rows = depth;
      product(task);
    });
  }

  void do_gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g,
                   Existing existing, Index block) override {
    if (g.empty()) return;
    const float keep = existing == Existing::add ? 1.0f : 0.0f;
    std::optional<Side> a[2], b[2];  // as they lie, and transposed
    for_runs(g.rows, block, g.rows, double(delta.rows()) * double(g.cols), [&](const Run& run) {
      const bool transposes =
          delta.transposed.data != nullptr ||
          pays_to_transpose(delta.rows(), double(run.in_blocks ? kMostBlocks * block : run.units),
                            double(g.cols));
      if (!a[transposes]) {
        a[transposes] =
            transposes ? transposed_side(x, true, second_transposed_) : side_of(x, false, second_);
        b[transposes] = transposes ? transposed_side(delta, false, first_transposed_)
                                   : side_of(delta, true, first_);
      }
      product({*a[transposes], units_of(*b[transposes], !transposes, run, block, run.units),
               g.row_range(run.first, run.units), scale, keep, nullptr, run.along(Along::rows),
               block});
    });
  }

  // In tf32 tensor cores read operands along k alone: where they lie across, products are half as
  // fast.
  bool pays_to_transpose(Index depth, double rows, double cols) const {
    constexpr double kLeast = 500.0;  // multiplications for each element that is transposed
    return stream_.precision == Precision::tf32 && depth >= 256 &&
           rows * cols >= kLeast * (rows + cols);
  }

  // A transposed operand. Rows have zeros behind them up to whole runs of 16 bytes.
  Side transposed_side(const DenseOperand& operand, bool transposed, Workspace<float>& workspace) {
    MatrixView<const float> m = operand.transposed;
    if (m.data == nullptr) {
      const Index depth = round_up(operand.rows(), 4);
      const MatrixView<float> copy{workspace.reserve(operand.cols() * depth), operand.cols(), depth,
                                   depth};
      cuda::transpose(stream_, operand.values, copy);
      m = copy;
    }
    return {m.data,   round_up(operand.rows(), 4),    m.rows,
            m.stride, alignment_of(m.data, m.stride), transposed};
  }

  void do_transpose(MatrixView<const float> x, MatrixView<float> transposed) override {
    cuda::transpose(stream_, x, transposed);
  }

  Stream stream_;
  std::unique_ptr<PointwiseKernels> pointwise_;
  Workspace<Bfloat16> first_;
  Workspace<Bfloat16> second_;
  Workspace<float> first_transposed_;
  Workspace<float> second_transposed_;
  std::shared_ptr<DensePlans> shared_plans_;
  DensePlans& plans_;
  Index planned_rows_;  // 0: rows do not stand alone
  // Of the kernels whose rows do not stand alone.
  std::unique_ptr<CudaDense> rows_;
  std::unique_ptr<CudaDense> many_rows_;
};

}  // namespace

std::unique_ptr<DenseKernels> make_dense(const Stream& stream) {
  return std::make_unique<CudaDense>(stream);
}

DenseProducts& products_of_many_rows(DenseKernels& dense) {
  return static_cast<CudaDense&>(dense).by_many_rows();
}

}  // namespace norn::cuda
