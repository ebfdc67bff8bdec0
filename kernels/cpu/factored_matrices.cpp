// SPDX-License-Identifier: Apache-2.0
// Matrices of the batch and of the source's width, for factored output layers.
#include "kernels/cpu/factored_matrices.h"

#include "kernels/cpu/small_products.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace norn {
namespace {

constexpr Index kTogether = 32;  // rows of a task
// What float32 rounds products to is 2^-24 of this, beside 1.
constexpr double kMostInFloat32 = 64.0;

double root_of(VectorView<const float> weight, Index row) {
  return weight.empty() ? 1.0 : std::sqrt(double(weight[row]));
}

// The sum over a row of what `of` makes of its elements, in a few sums side by side.
template <typename Of>
double sum_of_row(VectorView<const double> row, const Of& of) {
  constexpr Index kSums = 8;
  double part[kSums] = {}, sum = 0.0;
  Index j = 0;
  for (; j + kSums <= row.size; j += kSums)
    for (Index k = 0; k < kSums; ++k) part[k] += of(row[j + k]);
  for (; j < row.size; ++j) sum += of(row[j]);
  return std::accumulate(part, part + kSums, sum);
}

// The largest of these sums.
template <typename Of>
double largest_sum(Executor& executor, MatrixView<const double> m, const Of& of) {
  std::vector<double> sums(std::size_t(m.rows));
  executor.for_ranges(m.rows, kTogether, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r) sums[std::size_t(r)] = sum_of_row({m.row(r), m.cols}, of);
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0,
                         [](double a, double b) { return std::max(a, b); });
}

}  // namespace

template <typename Body>
void CpuFactoredMatrices::for_rows(Index rows, const Body& body) {
  executor_.for_ranges(rows, kTogether, [&](Index first, Index end, int) {
    for (Index r = first; r < end; ++r) body(r);
  });
}

void CpuFactoredMatrices::do_multiply(double scale, MatrixView<const double> a, As a_as,
                                      MatrixView<const double> b, As b_as, Existing existing,
                                      MatrixView<double> c, Operands operands) {
  if (operands == Operands::float64)
    multiply_doubles(executor_, scale, a, a_as, b, b_as, existing, c);
  else
    multiply_rounded(executor_, scale, a, a_as, b, b_as, existing, c);
}

FactoredKernels::Operands CpuFactoredMatrices::do_operands_of(double scale,
                                                              MatrixView<const double> h,
                                                              MatrixView<const double> c) {
  // Not less than the largest eigenvalue of c, nor than any sum in k h' by its magnitudes.
  const double most = scale * largest_sum(executor_, h, [](double x) { return x * x; }) *
                      largest_sum(executor_, c, [](double x) { return std::abs(x); });
  return most <= kMostInFloat32 ? Operands::float32 : Operands::float64;
}

void CpuFactoredMatrices::do_factorize(MatrixView<double> a, MatrixView<double> b,
                                       VectorView<double> least) {
  cholesky_factors(executor_, a, b, least);
}

void CpuFactoredMatrices::do_solve(MatrixView<const double> factor, MatrixView<const double> b,
                                   MatrixView<double> x, Operands operands) {
  if (operands == Operands::float64)
    cholesky_solve(executor_, factor, b, x);
  else
    cholesky_solve_rounded(executor_, factor, b, x);
}

void CpuFactoredMatrices::do_invert(MatrixView<const double> factor, MatrixView<double> x) {
  cholesky_inverse(executor_, factor, x);
}

void CpuFactoredMatrices::do_set_source(const DenseOperand& source, MatrixView<double> h) {
  const MatrixView<const float> x = source.values;
  for_rows(h.rows, [&](Index r) {
    std::transform(x.row(r), x.row(r) + x.cols, h.row(r), [](float y) { return double(y); });
    h(r, x.cols) = 1.0;
  });
}

void CpuFactoredMatrices::do_scale_rows(VectorView<const float> weight, MatrixView<double> m) {
  if (weight.empty()) return;
  for_rows(m.rows, [&](Index r) {
    const double root = root_of(weight, r);
    for (Index c = 0; c < m.cols; ++c) m(r, c) *= root;
  });
}

void CpuFactoredMatrices::do_add_sums(MatrixView<const FixedSum> sums, Existing existing,
                                      MatrixView<double> m) {
  for_rows(m.rows, [&](Index r) {
    for (Index c = 0; c < m.cols; ++c)
      m(r, c) = (existing == Existing::add ? m(r, c) : 0.0) + sums(r, c).value();
  });
}

void CpuFactoredMatrices::do_add_to_rows(MatrixView<const double> h, double scale,
                                         MatrixView<const double> added, MatrixView<double> m,
                                         VectorView<double> of_rows) {
  for_rows(m.rows, [&](Index r) {
    double sum = 0.0;
    for (Index c = 0; c < m.cols; ++c) {
      sum += m(r, c) * h(r, c);
      if (!added.empty()) m(r, c) = scale * m(r, c) + added(r, c);
    }
    of_rows[r] = sum;
  });
}

void CpuFactoredMatrices::do_send(MatrixView<const double> m, VectorView<const float> weight,
                                  MatrixView<float> x) {
  for_rows(x.rows, [&](Index r) {
    const double root = root_of(weight, r);
    for (Index c = 0; c < x.cols; ++c) x(r, c) = float(root * m(r, c));
  });
}

void CpuFactoredMatrices::do_combine(double keep, MatrixView<double> a, double scale,
                                     MatrixView<const double> b) {
  for_rows(a.rows, [&](Index r) {
    for (Index c = 0; c < a.cols; ++c)
      a(r, c) = (keep == 0.0 ? 0.0 : keep * a(r, c)) + scale * b(r, c);
  });
}

void CpuFactoredMatrices::do_damp(const DampedMatrix& base, double scale,
                                  MatrixView<const double> added, MatrixView<double> m) {
  double trace = 0.0;
  for (Index i = 0; i < base.matrix.rows; ++i) trace += base.matrix(i, i);
  const double on_diagonal = trace > 0.0 ? base.damping * trace / double(m.rows) : 1.0;
  for_rows(m.rows, [&](Index r) {
    for (Index c = 0; c < m.cols; ++c)
      m(r, c) = (base.matrix.empty() ? 0.0 : base.matrix(r, c)) + (r == c ? on_diagonal : 0.0) +
                (added.empty() ? 0.0 : scale * added(r, c));
  });
}

void CpuFactoredMatrices::do_add_symmetric(double scale, MatrixView<const double> w,
                                           MatrixView<double> g) {
  for_rows(g.rows, [&](Index r) {
    for (Index c = 0; c < g.cols; ++c) g(r, c) += scale * (w(r, c) + w(c, r));
  });
}

void CpuFactoredMatrices::do_judge(VectorView<const double> least, double limit, double scale,
                                   MatrixView<const double> h, double* share) {
  if (std::all_of(least.begin(), least.end(), [=](double pivot) { return pivot >= limit; })) return;
  std::vector<double> sums(std::size_t(h.cols), 0.0);
  for (Index r = 0; r < h.rows; ++r) {
    double of_row = 0.0;
    for (Index c = 0; c < h.cols; ++c) of_row += std::abs(h(r, c));
    for (Index c = 0; c < h.cols; ++c) sums[std::size_t(c)] += std::abs(h(r, c)) * of_row;
  }
  double largest = 0.0;
  for (double sum : sums) largest = std::max(largest, scale * sum);
  *share = largest > 0.0 ? largest : 1.0;
}

void CpuFactoredMatrices::do_look(MatrixView<const double> m, double limit, double* needed) {
  std::vector<char> is_beyond(std::size_t(m.rows));
  for_rows(m.rows, [&](Index r) {
    int beyond = 0;
    for (Index c = 0; c < m.cols; ++c) beyond |= std::abs(m(r, c)) > limit ? 1 : 0;
    is_beyond[std::size_t(r)] = char(beyond);
  });
  *needed = std::any_of(is_beyond.begin(), is_beyond.end(), [](char row) { return row != 0; });
}

void CpuFactoredMatrices::do_fold_gram(const double* needed, MatrixView<double> u,
                                       MatrixView<double> inverse, MatrixView<double> gram) {
  if (*needed == 0.0) return;
  const Index n = u.rows;
  std::vector<double> half(std::size_t(n * n));
  const MatrixView<double> product{half.data(), n, n, n};
  multiply_doubles(executor_, 1.0, gram, As::it_is, u, As::it_is, Existing::overwrite, product);
  multiply_doubles(executor_, 1.0, u, As::transposed, product, As::it_is, Existing::overwrite,
                   gram);
  do_set_identity(u);
  do_set_identity(inverse);
}

void CpuFactoredMatrices::do_set_identity(MatrixView<double> m) {
  for (Index r = 0; r < m.rows; ++r)
    for (Index c = 0; c < m.cols; ++c) m(r, c) = r == c ? 1.0 : 0.0;
}

void CpuFactoredMatrices::do_store(double value, double* to) {
  *to = value;
}

}  // namespace norn
