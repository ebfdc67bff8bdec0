// SPDX-License-Identifier: Apache-2.0
// The inverse by the sweep operator, block by block (Goodnight, "A Tutorial on the SWEEP Operator",
// The American Statistician 33, 1979). As many multiplications as Cholesky's factor and the inverse
// of it, but each block is one large product whose tiles are independent of each other.
#include "kernels/symmetric_inverse.h"

#include "kernels/cpu/blas_thread.h"
#include "kernels/cpu/small_products.h"
#include "src/tensor/buffer.h"

#include <algorithm>
#include <vector>

namespace norn {
namespace {

constexpr Index kBlock = 192;  // columns that are swept at a time
constexpr Index kTile = 256;   // rows that a task updates

Index tiles(Index size) {
  return (size + kTile - 1) / kTile;
}

// w = w x, or w x', of a lower triangle x.
void multiply_right(MatrixView<const double> x, CBLAS_TRANSPOSE transposed, MatrixView<double> w) {
  if (w.rows == 0) return;
  cblas_dtrmm(CblasRowMajor, CblasRight, CblasLower, transposed, CblasNonUnit, blas_size(w.rows),
              blas_size(w.cols), 1.0, x.data, stride_of(x), w.data, stride_of(w));
}

class Sweep {
 public:
  Sweep(Executor& executor, MatrixView<double> a)
      : executor_(executor),
        a_(a),
        panel_(std::size_t(a.rows * kBlock)),
        factor_(std::size_t(kBlock * kBlock)) {}

  /// Columns [first, first + width). The least pivot.
  double columns(Index first, Index width) {
    begin_ = first;
    end_ = first + width;
    const MatrixView<double> x{factor_.data(), width, width, width};
    for (Index r = 0; r < width; ++r) std::copy_n(a_.row(first + r) + first, width, x.row(r));
    double least = 0.0;
    cholesky_factors(executor_, x, {}, {&least, 1});
    if (!(least > 0.0)) return least;
    executor_.for_ranges(a_.rows, kTile, [&](Index from, Index to, int) {
      take(from, to);
      multiply_right(x, CblasTrans, panel().row_range(from, to - from));
    });
    const Index count = tiles(a_.rows);
    // The largest first, so that lanes end together.
    executor_.for_each(count, [&](Index number, int) { update((count - 1 - number) * kTile); });
    executor_.for_ranges(a_.rows, kTile, [&](Index from, Index to, int) {
      multiply_right(x, CblasNoTrans, panel().row_range(from, to - from));
      put(from, to);
    });
    put_pivot(x);
    return least;
  }

 private:
  MatrixView<double> panel() { return {panel_.data(), a_.rows, end_ - begin_, end_ - begin_}; }

  // Rows [from, to) of the swept columns, from the triangle that is kept; zeros for their own rows.
  void take(Index from, Index to) {
    for (Index r = std::max(from, end_); r < to; ++r)
      std::copy_n(a_.row(r) + begin_, end_ - begin_, panel().row(r));
    for (Index c = begin_; c < end_; ++c)
      for (Index r = from; r < std::min(to, end_); ++r)
        panel()(r, c - begin_) = r < begin_ ? a_(c, r) : 0.0;
  }
  void put(Index from, Index to) {
    for (Index r = std::max(from, end_); r < to; ++r)
      std::copy_n(panel().row(r), end_ - begin_, a_.row(r) + begin_);
    for (Index c = begin_; c < end_; ++c)
      for (Index r = from; r < std::min(to, begin_); ++r) a_(c, r) = panel()(r, c - begin_);
  }

  // A tile's rows up to the diagonal, less the product of the panel with itself. The panel is zero
  // in the swept rows, whose columns and rows stay.
  void update(Index first) {
    const Index rows = std::min(kTile, a_.rows - first);
    const MatrixView<const double> w = panel();
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_size(rows), blas_size(first + rows),
                blas_size(w.cols), -1.0, w.row(first), stride_of(w), w.data, stride_of(w), 1.0,
                a_.row(first), stride_of(a_));
  }

  // - x' x
  void put_pivot(MatrixView<const double> x) {
    const MatrixView<double> pivot = a_.row_range(begin_, x.rows).columns(begin_, x.cols);
    cholesky_inverse(executor_, x, pivot);
    for (Index r = 0; r < x.rows; ++r)
      for (Index c = 0; c < x.cols; ++c) pivot(r, c) = -pivot(r, c);
  }

  Executor& executor_;
  MatrixView<double> a_;
  std::vector<double> panel_;   // [n x block]
  std::vector<double> factor_;  // [block x block] inverse factor of a pivot
  Index begin_ = 0, end_ = 0;
};

}  // namespace

double invert_symmetric(Executor& executor, MatrixView<double> a) {
  const OneBlasThread alone;
  Sweep sweep(executor, a);
  double least = HUGE_VAL;
  for (Index first = 0; first < a.rows; first += kBlock) {
    least = std::min(least, sweep.columns(first, std::min(kBlock, a.rows - first)));
    if (!(least > 0.0)) return least;
  }
  // What was swept is the inverse with the other sign.
  executor.for_ranges(a.rows, kTile, [&](Index from, Index to, int) {
    for (Index r = from; r < to; ++r)
      for (Index c = 0; c <= r; ++c) a(r, c) = -a(r, c);
  });
  mirror_lower(executor, a);
  return least;
}

void mirror_lower(Executor& executor, MatrixView<double> a) {
  executor.for_ranges(a.rows, kTile, [&](Index from, Index to, int) {
    for (Index c = 0; c < to; c += kTile)
      for (Index r = from; r < to; ++r)
        for (Index q = c; q < std::min(c + kTile, r); ++q) a(q, r) = a(r, q);
  });
}

}  // namespace norn
