// SPDX-License-Identifier: Apache-2.0
// The door of the kernels of factored output layers: shapes are checked here, once for all devices.
#include "kernels/factored.h"

#include "kernels/common/shape_text.h"

#include <algorithm>

namespace norn {
namespace {

template <typename T>
bool is_square(MatrixView<T> a, Index side) {
  return a.rows == side && a.cols == side && has_valid_stride(a);
}

template <typename T>
bool fits(const FactorView<T>& v) {
  return has_valid_stride(v.rows) && v.last.size == v.rows.rows;
}

}  // namespace

void FactoredKernels::list(CsrView targets, Range units, TargetLists& lists) {
  require(units.begin >= 0 && units.begin <= units.end && units.end <= targets.cols,
          "factored: units beyond those of the targets");
  do_list(targets, units, lists);
}

void FactoredKernels::read_entries(const TargetLists& lists, FactorView<const float> v,
                                   MatrixView<const double> h, const EntryRule& rule,
                                   Index block_width, VectorView<double> r, VectorView<double> cost,
                                   MatrixView<FixedSum> rv) {
  require_fit(fits(v) && h.rows == lists.examples && h.cols == v.width() && block_width >= 1 &&
                  has_valid_stride(h),
              "factored::read_entries", "h [B x D], v [N x D]", h, v.rows);
  require_fit(r.size >= lists.entries && cost.size >= lists.entries &&
                  (rv.empty() || (rv.rows == h.rows && rv.cols == h.cols)),
              "factored::read_entries", "r and cost of all entries, rv [B x D]", r, cost, rv);
  do_read_entries(lists, v, h, rule, block_width, r, cost, rv);
}

void FactoredKernels::add_overlaps(const TargetLists& lists, VectorView<const double> r,
                                   MatrixView<FixedSum> s) {
  require_fit(r.size >= lists.entries && is_square(s, lists.examples), "factored::add_overlaps",
              "r of all entries, s [B x B]", r, s);
  do_add_overlaps(lists, r, s);
}

void FactoredKernels::update_rows(const TargetLists& lists, VectorView<const double> r,
                                  double scale, MatrixView<const double> k, FactorView<float> v) {
  require_fit(fits(v) && r.size >= lists.entries && k.rows == lists.examples &&
                  k.cols == v.width() && has_valid_stride(k),
              "factored::update_rows", "k [B x D], v [N x D]", k, v.rows);
  do_update_rows(lists, r, scale, k, v);
}

void FactoredKernels::fold(MatrixView<const double> u, FactorView<float> v) {
  require_fit(fits(v) && is_square(u, v.width()), "factored::fold", "u [D x D], v [N x D]", u,
              v.rows);
  do_fold(u, v);
}

void FactoredKernels::product(FactorView<const float> v, MatrixView<const double> u, Range columns,
                              MatrixView<float> w) {
  require_fit(fits(v) && is_square(u, v.width()) && columns.begin >= 0 &&
                  columns.end <= v.width() && w.rows == v.units() && w.cols == columns.count() &&
                  has_valid_stride(w),
              "factored::product", "u [D x D], v [N x D], w [N x columns]", u, v.rows, w);
  do_product(v, u, columns, w);
}

void FactoredKernels::add_gram(FactorView<const float> v, MatrixView<FixedSum> g) {
  require_fit(fits(v) && is_square(g, v.width()), "factored::add_gram", "v [N x D], g [D x D]",
              v.rows, g);
  do_add_gram(v, g);
}

void FactoredKernels::values(MatrixView<const double> h, FactorView<const float> v,
                             MatrixView<float> z) {
  require_fit(fits(v) && h.cols == v.width() && z.rows == h.rows && z.cols == v.units() &&
                  has_valid_stride(h) && has_valid_stride(z),
              "factored::values", "h [B x D], v [N x D], z [B x N]", h, v.rows, z);
  do_values(h, v, z);
}

void FactoredKernels::multiply(double scale, MatrixView<const double> a, As a_as,
                               MatrixView<const double> b, As b_as, Existing existing,
                               MatrixView<double> c) {
  const Index rows = a_as == As::it_is ? a.rows : a.cols;
  const Index depth = a_as == As::it_is ? a.cols : a.rows;
  const Index b_depth = b_as == As::it_is ? b.rows : b.cols;
  const Index cols = b_as == As::it_is ? b.cols : b.rows;
  require_fit(depth == b_depth && c.rows == rows && c.cols == cols && has_valid_stride(a) &&
                  has_valid_stride(b) && has_valid_stride(c),
              "factored::multiply", "c = a b", a, b, c);
  do_multiply(scale, a, a_as, b, b_as, existing, c);
}

double FactoredKernels::factorize(MatrixView<double> a) {
  require_fit(is_square(a, a.rows), "factored::factorize", "a square matrix", a);
  return do_factorize(a);
}

void FactoredKernels::solve(MatrixView<const double> factor, MatrixView<double> b) {
  require_fit(is_square(factor, b.rows) && has_valid_stride(b), "factored::solve",
              "factor [n x n], b [n x m]", factor, b);
  do_solve(factor, b);
}

}  // namespace norn
