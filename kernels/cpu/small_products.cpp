// SPDX-License-Identifier: Apache-2.0
// Products of float64 matrices by BLAS in tiles that the shape fixes, and the inverses of
// Cholesky's factors by them.
#include "kernels/cpu/small_products.h"

#include "kernels/cpu/blas_thread.h"

#include <algorithm>
#include <cmath>
#include <new>

namespace norn {
namespace {

using As = FactoredKernels::As;

constexpr Index kTileRows = 128;
constexpr Index kTileCols = 256;
constexpr std::align_val_t kAlignment{64};
constexpr Index kLine = 16;        // floats of a line of the cache
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
void for_tiles(Executor& executor, Index rows, Index cols, Index tile_rows, const Body& body) {
  const Tiles down(rows, tile_rows), across(cols, kTileCols);
  executor.for_each(down.count() * across.count(), [&](Index number, int) {
    const Index r = number / across.count(), q = number % across.count();
    body(down.begin(r), down.size(r), across.begin(q), across.size(q));
  });
}

template <typename T>
std::unique_ptr<T[]> raw(Index count) {
  return std::make_unique_for_overwrite<T[]>(std::size_t(count));
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

CBLAS_TRANSPOSE transposed(As as) {
  return as == As::it_is ? CblasNoTrans : CblasTrans;
}

// c = scale a b + keep c, as one call.
void multiply_once(double scale, MatrixView<const double> a, As a_as, MatrixView<const double> b,
                   As b_as, double keep, MatrixView<double> c) {
  cblas_dgemm(CblasRowMajor, transposed(a_as), transposed(b_as), blas_size(c.rows),
              blas_size(c.cols), blas_size(a_as == As::it_is ? a.cols : a.rows), scale, a.data,
              stride_of(a), b.data, stride_of(b), keep, c.data, stride_of(c));
}
void multiply_once(double scale, MatrixView<const float> a, As a_as, MatrixView<const float> b,
                   As b_as, double keep, MatrixView<float> c) {
  cblas_sgemm(CblasRowMajor, transposed(a_as), transposed(b_as), blas_size(c.rows),
              blas_size(c.cols), blas_size(a_as == As::it_is ? a.cols : a.rows), float(scale),
              a.data, stride_of(a), b.data, stride_of(b), float(keep), c.data, stride_of(c));
}

// Rows or columns [first, first + count) of a matrix as it is read.
template <typename T>
MatrixView<const T> part(MatrixView<const T> m, As as, bool rows, Index first, Index count) {
  return (as == As::it_is) == rows ? m.row_range(first, count) : m.columns(first, count);
}

}  // namespace

RoundedMatrix::RoundedMatrix(Executor& executor, MatrixView<const double> m) {
  const Index stride = (m.cols + kLine - 1) / kLine * kLine;
  floats_.reset(new (kAlignment) float[std::size_t(m.rows * stride)]);
  view_ = {floats_.get(), m.rows, m.cols, stride};
  executor.for_ranges(m.rows, kPanel, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r) std::copy_n(m.row(r), m.cols, floats_.get() + r * stride);
  });
}

void RoundedMatrix::Free::operator()(float* floats) const {
  ::operator delete[](floats, kAlignment);
}

void multiply_doubles(Executor& executor, double scale, MatrixView<const double> a, As a_as,
                      MatrixView<const double> b, As b_as, Existing existing,
                      MatrixView<double> c) {
  const OneBlasThread alone;
  const double keep = existing == Existing::add ? 1.0 : 0.0;
  for_tiles(executor, c.rows, c.cols, kTileRows, [&](Index r, Index rows, Index q, Index cols) {
    multiply_once(scale, part(a, a_as, true, r, rows), a_as, part(b, b_as, false, q, cols), b_as,
                  keep, c.row_range(r, rows).columns(q, cols));
  });
}

void multiply_floats(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  const OneBlasThread alone;
  multiply_once(1.0, a, As::it_is, b, As::it_is, 0.0, c);
}

namespace {

// What a tile of a product means to c.
void put(double scale, MatrixView<const float> product, Existing existing, MatrixView<double> c) {
  for (Index i = 0; i < c.rows; ++i) {
    double* to = c.row(i);
    const float* from = product.row(i);
    if (existing == Existing::add)
      for (Index j = 0; j < c.cols; ++j) to[j] += scale * double(from[j]);
    else
      for (Index j = 0; j < c.cols; ++j) to[j] = scale * double(from[j]);
  }
}

MatrixView<const float> transpose(MatrixView<const float> m, float* to) {
  for (Index i = 0; i < m.cols; ++i)
    for (Index j = 0; j < m.rows; ++j) to[i * m.rows + j] = m(j, i);
  return {to, m.cols, m.rows, m.rows};
}

// c = scale a a' or a' a, of which tiles below the diagonal are made.
void multiply_by_itself(Executor& executor, double scale, MatrixView<const double> a, As a_as,
                        Existing existing, MatrixView<double> c) {
  const RoundedMatrix rounded(executor, a);
  const As b_as = a_as == As::it_is ? As::transposed : As::it_is;
  const Tiles side(c.rows, kTileRows);
  executor.for_each(side.count() * side.count(), [&](Index number, int) {
    const Index down = number / side.count(), across = number % side.count();
    if (across > down) return;
    const Index r = side.begin(down), rows = side.size(down);
    const Index q = side.begin(across), cols = side.size(across);
    const std::unique_ptr<float[]> made = raw<float>(2 * rows * cols);
    const MatrixView<float> product{made.get(), rows, cols, cols};
    multiply_once(1.0, part(rounded.view(), a_as, true, r, rows), a_as,
                  part(rounded.view(), b_as, false, q, cols), b_as, 0.0, product);
    put(scale, product, existing, c.row_range(r, rows).columns(q, cols));
    if (across < down)
      put(scale, transpose(product, made.get() + rows * cols), existing,
          c.row_range(q, cols).columns(r, rows));
  });
}

}  // namespace

void multiply_rounded(Executor& executor, double scale, MatrixView<const double> a, As a_as,
                      MatrixView<const double> b, As b_as, Existing existing,
                      MatrixView<double> c) {
  const OneBlasThread alone;
  if (a.data == b.data && a_as != b_as && a.rows == b.rows && a.cols == b.cols) {
    multiply_by_itself(executor, scale, a, a_as, existing, c);
    return;
  }
  const RoundedMatrix left(executor, a), right(executor, b);
  for_tiles(executor, c.rows, c.cols, kTileRows, [&](Index r, Index rows, Index q, Index cols) {
    const std::unique_ptr<float[]> made = raw<float>(rows * cols);
    const MatrixView<float> product{made.get(), rows, cols, cols};
    multiply_once(1.0, part(left.view(), a_as, true, r, rows), a_as,
                  part(right.view(), b_as, false, q, cols), b_as, 0.0, product);
    put(scale, product, existing, c.row_range(r, rows).columns(q, cols));
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

namespace {

// x = factor' factor b, of a lower triangle. b and x may be one.
template <typename T>
void solve_by_factor(Executor& executor, MatrixView<const T> factor, MatrixView<const T> b,
                     MatrixView<T> x) {
  const OneBlasThread alone;
  const Index n = factor.rows;
  const std::unique_ptr<T[]> made = raw<T>(n * b.cols);
  const MatrixView<T> half{made.get(), n, b.cols, b.cols};
  for_tiles(executor, n, b.cols, kPanel, [&](Index r, Index rows, Index q, Index cols) {
    const Index depth = r + rows;
    multiply_once(1.0, factor.row_range(r, rows).columns(0, depth), As::it_is,
                  b.row_range(0, depth).columns(q, cols), As::it_is, 0.0,
                  half.row_range(r, rows).columns(q, cols));
  });
  const MatrixView<const T> from = half;
  for_tiles(executor, n, b.cols, kPanel, [&](Index r, Index rows, Index q, Index cols) {
    multiply_once(1.0, factor.row_range(r, n - r).columns(r, rows), As::transposed,
                  from.row_range(r, n - r).columns(q, cols), As::it_is, 0.0,
                  x.row_range(r, rows).columns(q, cols));
  });
}

}  // namespace

void cholesky_solve(Executor& executor, MatrixView<const double> factor, MatrixView<const double> b,
                    MatrixView<double> x) {
  solve_by_factor(executor, factor, b, x);
}

void cholesky_solve_rounded(Executor& executor, MatrixView<const double> factor,
                            MatrixView<const double> b, MatrixView<double> x) {
  const RoundedMatrix left(executor, factor), right(executor, b);
  const std::unique_ptr<float[]> made = raw<float>(x.size());
  const MatrixView<float> found{made.get(), x.rows, x.cols, x.cols};
  solve_by_factor(executor, left.view(), right.view(), found);
  executor.for_ranges(x.rows, kPanel, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r) std::copy_n(found.row(r), x.cols, x.row(r));
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
