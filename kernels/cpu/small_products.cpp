// SPDX-License-Identifier: Apache-2.0
// Products of float64 matrices by BLAS in tiles that the shape fixes, and Cholesky's factor by
// them.
#include "kernels/cpu/small_products.h"

#include "kernels/cpu/blas_thread.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace norn {
namespace {

using As = FactoredKernels::As;

constexpr Index kTileRows = 128;
constexpr Index kTileCols = 256;
constexpr Index kPanel = 64;  // columns that are factorised one by one

Index tiles(Index size, Index tile) {
  return (size + tile - 1) / tile;
}

// The first element of rows or columns from `first` on, as a matrix is read.
const double* from(MatrixView<const double> m, As as, bool rows, Index first) {
  return m.data + ((as == As::it_is) == rows ? first * m.stride : first);
}

// The factor of a panel on the diagonal. The least pivot.
double factor_panel(MatrixView<double> a) {
  double least = HUGE_VAL;
  for (Index j = 0; j < a.cols; ++j) {
    double* row = a.row(j);
    double pivot = row[j];
    for (Index k = 0; k < j; ++k) pivot -= row[k] * row[k];
    if (!(pivot > 0.0)) return pivot;
    least = std::min(least, pivot);
    row[j] = std::sqrt(pivot);
    for (Index i = j + 1; i < a.rows; ++i) {
      double* below = a.row(i);
      double sum = below[j];
      for (Index k = 0; k < j; ++k) sum -= below[k] * row[k];
      below[j] = sum / row[j];
    }
  }
  return least;
}

// b = l^-1 b or l'^-1 b for a panel l on the diagonal, column by column side by side.
void solve_panel(MatrixView<const double> l, bool transposed, MatrixView<double> b) {
  for (Index step = 0; step < l.rows; ++step) {
    const Index i = transposed ? l.rows - 1 - step : step;
    double* row = b.row(i);
    const Index begin = transposed ? i + 1 : 0, end = transposed ? l.rows : i;
    for (Index k = begin; k < end; ++k) {
      const double factor = transposed ? l(k, i) : l(i, k);
      const double* other = b.row(k);
      for (Index c = 0; c < b.cols; ++c) row[c] -= factor * other[c];
    }
    const double pivot = l(i, i);
    for (Index c = 0; c < b.cols; ++c) row[c] /= pivot;
  }
}

void solve_panel(Executor& executor, MatrixView<const double> l, bool transposed,
                 MatrixView<double> b) {
  executor.for_ranges(b.cols, kPanel, [&](Index begin, Index end, int) {
    solve_panel(l, transposed, b.columns(begin, end - begin));
  });
}

}  // namespace

std::vector<float> rounded(Executor& executor, MatrixView<const double> m) {
  std::vector<float> floats(std::size_t(m.size()));
  executor.for_ranges(m.rows, kPanel, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r)
      std::transform(m.row(r), m.row(r) + m.cols, floats.data() + r * m.cols,
                     [](double x) { return float(x); });
  });
  return floats;
}

void multiply_doubles(Executor& executor, double scale, MatrixView<const double> a, As a_as,
                      MatrixView<const double> b, As b_as, Existing existing,
                      MatrixView<double> c) {
  const OneBlasThread alone;
  const Index depth = a_as == As::it_is ? a.cols : a.rows;
  const double keep = existing == Existing::add ? 1.0 : 0.0;
  const Index across = tiles(c.cols, kTileCols);
  executor.for_each(tiles(c.rows, kTileRows) * across, [&](Index number, int) {
    const Index r = number / across * kTileRows, q = number % across * kTileCols;
    const Index rows = std::min(kTileRows, c.rows - r), cols = std::min(kTileCols, c.cols - q);
    cblas_dgemm(CblasRowMajor, a_as == As::it_is ? CblasNoTrans : CblasTrans,
                b_as == As::it_is ? CblasNoTrans : CblasTrans, blas_size(rows), blas_size(cols),
                blas_size(depth), scale, from(a, a_as, true, r), stride_of(a),
                from(b, b_as, false, q), stride_of(b), keep, c.row(r) + q, stride_of(c));
  });
}

void multiply_floats(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  const OneBlasThread alone;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blas_size(c.rows), blas_size(c.cols),
              blas_size(a.cols), 1.0f, a.data, stride_of(a), b.data, stride_of(b), 0.0f, c.data,
              stride_of(c));
}

void multiply_rounded(Executor& executor, double scale, MatrixView<const double> a, As a_as,
                      MatrixView<const double> b, As b_as, Existing existing,
                      MatrixView<double> c) {
  const OneBlasThread alone;
  const Index depth = a_as == As::it_is ? a.cols : a.rows;
  const std::vector<float> left = rounded(executor, a), right = rounded(executor, b);
  const Index across = tiles(c.cols, kTileCols);
  executor.for_each(tiles(c.rows, kTileRows) * across, [&](Index number, int) {
    const Index r = number / across * kTileRows, q = number % across * kTileCols;
    const Index rows = std::min(kTileRows, c.rows - r), cols = std::min(kTileCols, c.cols - q);
    std::vector<float> tile(std::size_t(rows * cols), 0.0f);
    if (depth > 0)
      cblas_sgemm(CblasRowMajor, a_as == As::it_is ? CblasNoTrans : CblasTrans,
                  b_as == As::it_is ? CblasNoTrans : CblasTrans, blas_size(rows), blas_size(cols),
                  blas_size(depth), 1.0f, left.data() + (a_as == As::it_is ? r * a.cols : r),
                  blas_size(std::max<Index>(1, a.cols)),
                  right.data() + (b_as == As::it_is ? q : q * b.cols),
                  blas_size(std::max<Index>(1, b.cols)), 0.0f, tile.data(), blas_size(cols));
    for (Index i = 0; i < rows; ++i) {
      double* to = c.row(r + i) + q;
      const float* product = tile.data() + i * cols;
      for (Index j = 0; j < cols; ++j)
        to[j] = (existing == Existing::add ? to[j] : 0.0) + scale * double(product[j]);
    }
  });
}

namespace {

// c -= a a', in tiles of rows, of which all columns up to the diagonal are made.
void subtract_squares(Executor& executor, MatrixView<const double> a, MatrixView<double> c) {
  const OneBlasThread alone;
  const Index count = tiles(c.rows, kTileRows);
  executor.for_each(count, [&](Index number, int) {
    const Index r = (count - 1 - number) * kTileRows, rows = std::min(kTileRows, c.rows - r);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, blas_size(rows), blas_size(r + rows),
                blas_size(a.cols), -1.0, a.row(r), stride_of(a), a.data, stride_of(a), 1.0,
                c.row(r), stride_of(c));
  });
}

}  // namespace

double cholesky_factor(Executor& executor, MatrixView<double> a) {
  double least = HUGE_VAL;
  for (Index j = 0; j < a.rows; j += kPanel) {
    const Index width = std::min(kPanel, a.rows - j), rest = j + width;
    const MatrixView<double> panel = a.row_range(j, width).columns(j, width);
    least = std::min(least, factor_panel(panel));
    if (!(least > 0.0)) return least;
    const Index below = a.rows - rest;
    if (below == 0) break;
    const MatrixView<double> under = a.row_range(rest, below).columns(j, width);
    executor.for_ranges(below, kPanel, [&](Index begin, Index end, int) {
      for (Index i = begin; i < end; ++i) {
        double* row = under.row(i);
        for (Index c = 0; c < width; ++c) {
          double sum = row[c];
          for (Index k = 0; k < c; ++k) sum -= row[k] * panel(c, k);
          row[c] = sum / panel(c, c);
        }
      }
    });
    subtract_squares(executor, under, a.row_range(rest, below).columns(rest, below));
  }
  return least;
}

void cholesky_solve(Executor& executor, MatrixView<const double> factor, MatrixView<double> b) {
  const Index n = factor.rows;
  for (Index j = 0; j < n; j += kPanel) {
    const Index width = std::min(kPanel, n - j), rest = j + width;
    solve_panel(executor, factor.row_range(j, width).columns(j, width), false,
                b.row_range(j, width));
    if (rest < n)
      multiply_doubles(executor, -1.0, factor.row_range(rest, n - rest).columns(j, width),
                       As::it_is, b.row_range(j, width), As::it_is, Existing::add,
                       b.row_range(rest, n - rest));
  }
  for (Index j = (n - 1) / kPanel * kPanel; j >= 0; j -= kPanel) {
    const Index width = std::min(kPanel, n - j), rest = j + width;
    if (rest < n)
      multiply_doubles(executor, -1.0, factor.row_range(rest, n - rest).columns(j, width),
                       As::transposed, b.row_range(rest, n - rest), As::it_is, Existing::add,
                       b.row_range(j, width));
    solve_panel(executor, factor.row_range(j, width).columns(j, width), true,
                b.row_range(j, width));
  }
}

}  // namespace norn
