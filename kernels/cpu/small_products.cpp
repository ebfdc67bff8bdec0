// SPDX-License-Identifier: Apache-2.0
// Products of float64 matrices by BLAS in tiles that the shape fixes, and the inverses of
// Cholesky's factors by them.
#include "kernels/cpu/small_products.h"

#include "kernels/cpu/blas_thread.h"

#include <algorithm>
#include <cmath>

namespace norn {
namespace {

using As = FactoredKernels::As;

constexpr Index kTileRows = 128;
constexpr Index kTileCols = 256;
constexpr Index kPanel = 64;       // columns that are factorised one by one
constexpr Index kTogether = 1024;  // up to which side two matrices are factorised side by side

// A side in tiles: the last one has what is left, up to half a tile more.
class Tiles {
 public:
  Tiles(Index size, Index tile)
      : size_(size), tile_(tile), count_(std::max<Index>(1, (size + tile / 2) / tile)) {}
  Index count() const { return count_; }
  Index begin(Index number) const { return number * tile_; }
  Index size(Index number) const { return number + 1 == count_ ? size_ - begin(number) : tile_; }

 private:
  Index size_, tile_, count_;
};

// body(first row, rows, first column, columns) of each tile.
template <typename Body>
void for_tiles(Executor& executor, Index rows, Index cols, const Body& body) {
  const Tiles down(rows, kTileRows), across(cols, kTileCols);
  executor.for_each(down.count() * across.count(), [&](Index number, int) {
    const Index r = number / across.count(), q = number % across.count();
    body(down.begin(r), down.size(r), across.begin(q), across.size(q));
  });
}

template <typename T>
std::unique_ptr<T[]> raw(Index count) {
  return std::make_unique_for_overwrite<T[]>(std::size_t(count));
}

// The first element of rows or columns from `first` on, as a matrix is read.
template <typename T>
const T* from(MatrixView<const T> m, As as, bool rows, Index first) {
  return m.data + ((as == As::it_is) == rows ? first * m.stride : first);
}

// A panel on the diagonal, of which the lower triangle counts: in its place the inverse of its
// factor, and 0 above. The least pivot.
double invert_panel(MatrixView<double> a) {
  double column[kPanel][kPanel];  // of the factor
  const Index n = a.rows;
  double least = HUGE_VAL;
  for (Index j = 0; j < n; ++j)
    for (Index i = j; i < n; ++i) column[j][i] = a(i, j);
  for (Index j = 0; j < n; ++j) {
    const double pivot = column[j][j];
    if (!(pivot > 0.0)) return pivot;
    least = std::min(least, pivot);
    const double root = std::sqrt(pivot);
    for (Index i = j; i < n; ++i) column[j][i] /= root;
    for (Index k = j + 1; k < n; ++k) {
      const double factor = column[j][k];
      for (Index i = k; i < n; ++i) column[k][i] -= factor * column[j][i];
    }
  }
  for (Index i = 0; i < n; ++i) {
    double* row = a.row(i);
    std::fill_n(row, n, 0.0);
    row[i] = 1.0;
    for (Index k = 0; k < i; ++k) {
      const double factor = column[k][i];
      const double* other = a.row(k);
      for (Index c = 0; c <= k; ++c) row[c] -= factor * other[c];
    }
    for (Index c = 0; c <= i; ++c) row[c] /= column[i][i];
  }
  return least;
}

// c = scale a b + keep c, as one call.
void multiply_once(double scale, MatrixView<const double> a, As a_as, MatrixView<const double> b,
                   As b_as, double keep, MatrixView<double> c) {
  cblas_dgemm(CblasRowMajor, a_as == As::it_is ? CblasNoTrans : CblasTrans,
              b_as == As::it_is ? CblasNoTrans : CblasTrans, blas_size(c.rows), blas_size(c.cols),
              blas_size(a_as == As::it_is ? a.cols : a.rows), scale, a.data, stride_of(a), b.data,
              stride_of(b), keep, c.data, stride_of(c));
}

}  // namespace

RoundedMatrix::RoundedMatrix(Executor& executor, MatrixView<const double> m) {
  const Index stride = (m.cols + kLine - 1) / kLine;
  lines_ = raw<Line>(m.rows * stride);
  float* floats = lines_ ? lines_[0].floats : nullptr;
  view_ = {floats, m.rows, m.cols, stride * kLine};
  executor.for_ranges(m.rows, kPanel, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r)
      std::transform(m.row(r), m.row(r) + m.cols, floats + r * view_.stride,
                     [](double x) { return float(x); });
  });
}

void multiply_doubles(Executor& executor, double scale, MatrixView<const double> a, As a_as,
                      MatrixView<const double> b, As b_as, Existing existing,
                      MatrixView<double> c) {
  const OneBlasThread alone;
  const Index depth = a_as == As::it_is ? a.cols : a.rows;
  const double keep = existing == Existing::add ? 1.0 : 0.0;
  for_tiles(executor, c.rows, c.cols, [&](Index r, Index rows, Index q, Index cols) {
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
  const RoundedMatrix left(executor, a), right(executor, b);
  for_tiles(executor, c.rows, c.cols, [&](Index r, Index rows, Index q, Index cols) {
    const std::unique_ptr<float[]> tile = raw<float>(rows * cols);
    if (depth == 0) std::fill_n(tile.get(), rows * cols, 0.0f);
    if (depth > 0)
      cblas_sgemm(CblasRowMajor, a_as == As::it_is ? CblasNoTrans : CblasTrans,
                  b_as == As::it_is ? CblasNoTrans : CblasTrans, blas_size(rows), blas_size(cols),
                  blas_size(depth), 1.0f, from(left.view(), a_as, true, r), stride_of(left.view()),
                  from(right.view(), b_as, false, q), stride_of(right.view()), 0.0f, tile.get(),
                  blas_size(cols));
    for (Index i = 0; i < rows; ++i) {
      double* to = c.row(r + i) + q;
      const float* product = tile.get() + i * cols;
      if (existing == Existing::add)
        for (Index j = 0; j < cols; ++j) to[j] += scale * double(product[j]);
      else
        for (Index j = 0; j < cols; ++j) to[j] = scale * double(product[j]);
    }
  });
}

namespace {

// c -= a a', in tiles of rows, of which all columns up to the diagonal are made.
void subtract_squares(Executor& executor, MatrixView<const double> a, MatrixView<double> c) {
  const Tiles down(c.rows, kTileRows);
  executor.for_each(down.count(), [&](Index number, int) {
    const Index tile = down.count() - 1 - number, r = down.begin(tile), rows = down.size(tile);
    multiply_once(-1.0, a.row_range(r, rows), As::it_is, a, As::transposed, 1.0,
                  c.row_range(r, rows).columns(0, r + rows));
  });
}

// The inverse of a factor of which panels on the diagonal are inverted already, and 0 above.
// Columns are independent of each other.
void invert_factor(Executor& executor, MatrixView<double> a) {
  const Index n = a.rows;
  const std::unique_ptr<double[]> made = raw<double>(n * n);
  const MatrixView<double> inverse{made.get(), n, n, n};
  executor.for_ranges(n, kPanel, [&](Index first, Index end, int) {
    const Index width = end - first;
    double sums[kPanel * kPanel];
    for (Index r = first; r < end; ++r)
      std::copy_n(a.row(r) + first, width, inverse.row(r) + first);
    for (Index i = end; i < n; i += kPanel) {
      const Index rows = std::min(kPanel, n - i);
      const MatrixView<double> sum{sums, rows, width, width};
      multiply_once(1.0, a.row_range(i, rows).columns(first, i - first), As::it_is,
                    inverse.row_range(first, i - first).columns(first, width), As::it_is, 0.0, sum);
      multiply_once(-1.0, a.row_range(i, rows).columns(i, rows), As::it_is, sum, As::it_is, 0.0,
                    inverse.row_range(i, rows).columns(first, width));
    }
  });
  executor.for_ranges(n, kPanel, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r) {
      std::copy_n(inverse.row(r), end, a.row(r));
      std::fill(a.row(r) + end, a.row(r) + n, 0.0);
    }
  });
}

double factorize(Executor& executor, MatrixView<double> a) {
  double least = HUGE_VAL;
  for (Index j = 0; j < a.rows; j += kPanel) {
    const Index width = std::min(kPanel, a.rows - j), rest = j + width, below = a.rows - rest;
    const MatrixView<double> panel = a.row_range(j, width).columns(j, width);
    least = std::min(least, invert_panel(panel));
    if (!(least > 0.0)) return least;
    if (below == 0) break;
    const MatrixView<double> under = a.row_range(rest, below).columns(j, width);
    executor.for_ranges(below, kPanel, [&](Index begin, Index end, int) {
      double copy[kPanel * kPanel];
      const MatrixView<double> rows{copy, end - begin, width, width};
      for (Index i = begin; i < end; ++i) std::copy_n(under.row(i), width, rows.row(i - begin));
      multiply_once(1.0, rows, As::it_is, panel, As::transposed, 0.0,
                    under.row_range(begin, end - begin));
    });
    subtract_squares(executor, under, a.row_range(rest, below).columns(rest, below));
  }
  invert_factor(executor, a);
  return least;
}

}  // namespace

void cholesky_factors(Executor& executor, MatrixView<double> a, MatrixView<double> b,
                      VectorView<double> least) {
  const OneBlasThread alone;
  if (b.empty() || a.rows > kTogether) {
    least[0] = factorize(executor, a);
    if (!b.empty()) least[1] = factorize(executor, b);
    return;
  }
  executor.for_each(2, [&](Index i, int) { least[i] = factorize(executor, i == 0 ? a : b); });
}

void cholesky_solve(Executor& executor, MatrixView<const double> factor, MatrixView<const double> b,
                    MatrixView<double> x) {
  const OneBlasThread alone;
  const Index n = factor.rows;
  const std::unique_ptr<double[]> made = raw<double>(n * b.cols);
  const MatrixView<double> half{made.get(), n, b.cols, b.cols};
  for_tiles(executor, n, b.cols, [&](Index r, Index rows, Index q, Index cols) {
    const Index depth = r + rows;
    multiply_once(1.0, factor.row_range(r, rows).columns(0, depth), As::it_is,
                  b.row_range(0, depth).columns(q, cols), As::it_is, 0.0,
                  half.row_range(r, rows).columns(q, cols));
  });
  for_tiles(executor, n, b.cols, [&](Index r, Index rows, Index q, Index cols) {
    multiply_once(1.0, factor.row_range(r, n - r).columns(r, rows), As::transposed,
                  half.row_range(r, n - r).columns(q, cols), As::it_is, 0.0,
                  x.row_range(r, rows).columns(q, cols));
  });
}

void cholesky_inverse(Executor& executor, MatrixView<const double> factor, MatrixView<double> x) {
  const OneBlasThread alone;
  const Index n = factor.rows;
  const Tiles side(n, kTileRows);
  executor.for_each(side.count() * side.count(), [&](Index number, int) {
    const Index r = number / side.count(), q = number % side.count();
    if (q > r) return;
    const Index first = side.begin(r), rows = side.size(r), left = side.begin(q);
    const MatrixView<double> tile = x.row_range(first, rows).columns(left, side.size(q));
    multiply_once(1.0, factor.row_range(first, n - first).columns(first, rows), As::transposed,
                  factor.row_range(first, n - first).columns(left, tile.cols), As::it_is, 0.0,
                  tile);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < (q == r ? i : tile.cols); ++j) x(left + j, first + i) = tile(i, j);
  });
}

}  // namespace norn
