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

template <typename A, typename B>
bool same_shape(MatrixView<A> a, MatrixView<B> b) {
  return a.rows == b.rows && a.cols == b.cols && has_valid_stride(a) && has_valid_stride(b);
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

void FactoredKernels::sum_rows(const TargetLists& lists, FactorView<const float> v,
                               VectorView<const double> r, Index block_width,
                               MatrixView<FixedSum> rv) {
  require_fit(fits(v) && r.size >= lists.entries && rv.rows == lists.examples &&
                  rv.cols == v.width() && block_width >= 1,
              "factored::sum_rows", "r of all entries, v [N x D], rv [B x D]", r, v.rows, rv);
  do_sum_rows(lists, v, r, block_width, rv);
}

bool FactoredKernels::sum_pairs(const TargetLists& lists, VectorView<const double> r,
                                Index block_width, MatrixView<FixedSum> rr) {
  require_fit(r.size >= lists.entries && is_square(rr, lists.examples) && block_width >= 1,
              "factored::sum_pairs", "r of all entries, rr [B x B]", r, rr);
  return do_sum_pairs(lists, r, block_width, rr);
}

void FactoredKernels::add_up_costs(const TargetLists& lists, VectorView<const double> cost,
                                   Index block_width, VectorView<const double> all_units,
                                   VectorView<double> of_blocks) {
  require_fit(cost.size >= lists.entries && block_width >= 1, "factored::add_up_costs",
              "costs of all entries", cost);
  if (of_blocks.empty()) return;
  do_add_up_costs(lists, cost, block_width, all_units, of_blocks);
}

void FactoredKernels::update_rows(const TargetLists& lists, VectorView<const double> r,
                                  double scale, MatrixView<const double> k, FactorView<float> v) {
  require_fit(fits(v) && r.size >= lists.entries && k.rows == lists.examples &&
                  k.cols == v.width() && has_valid_stride(k),
              "factored::update_rows", "k [B x D], v [N x D]", k, v.rows);
  do_update_rows(lists, r, scale, k, v);
}

void FactoredKernels::fold(MatrixView<const double> u, Index block_width, const double* needed,
                           FactorView<float> v) {
  require_fit(fits(v) && is_square(u, v.width()) && block_width >= 1, "factored::fold",
              "u [D x D], v [N x D]", u, v.rows);
  do_fold(u, block_width, needed, v);
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
                               MatrixView<double> c, Operands operands) {
  const Index rows = a_as == As::it_is ? a.rows : a.cols;
  const Index depth = a_as == As::it_is ? a.cols : a.rows;
  const Index b_depth = b_as == As::it_is ? b.rows : b.cols;
  const Index cols = b_as == As::it_is ? b.cols : b.rows;
  require_fit(depth == b_depth && c.rows == rows && c.cols == cols && has_valid_stride(a) &&
                  has_valid_stride(b) && has_valid_stride(c),
              "factored::multiply", "c = a b", a, b, c);
  if (!c.empty()) do_multiply(scale, a, a_as, b, b_as, existing, c, operands);
}

FactoredKernels::Operands FactoredKernels::operands_of(double scale, MatrixView<const double> h,
                                                       MatrixView<const double> c) {
  require_fit(is_square(c, h.cols) && has_valid_stride(h), "factored::operands_of",
              "h [B x D], c [D x D]", h, c);
  return do_operands_of(scale, h, c);
}

void FactoredKernels::factorize(MatrixView<double> a, MatrixView<double> b,
                                VectorView<double> least) {
  require_fit(is_square(a, a.rows) && (b.empty() || is_square(b, a.rows)) &&
                  least.size >= (b.empty() ? 1 : 2),
              "factored::factorize", "square matrices", a, b, least);
  if (!a.empty()) do_factorize(a, b, least);
}

void FactoredKernels::solve(MatrixView<const double> factor, MatrixView<const double> b,
                            MatrixView<double> x, Operands operands) {
  require_fit(is_square(factor, b.rows) && same_shape(b, x), "factored::solve",
              "factor [n x n], b and x [n x m]", factor, b, x);
  if (!b.empty()) do_solve(factor, b, x, operands);
}

void FactoredKernels::invert(MatrixView<const double> factor, MatrixView<double> x) {
  require_fit(is_square(factor, factor.rows) && same_shape(factor, x), "factored::invert",
              "factor and x [n x n]", factor, x);
  if (!x.empty()) do_invert(factor, x);
}

void FactoredKernels::set_source(DenseOperand x, MatrixView<double> h) {
  require_fit(h.rows == x.rows() && h.cols == x.cols() + 1 && has_valid_stride(x.values) &&
                  has_valid_stride(h),
              "factored::set_source", "x [B x D - 1], h [B x D]", x.values, h);
  do_set_source(x, h);
}

void FactoredKernels::scale_rows(VectorView<const float> weight, MatrixView<double> m) {
  if (weight.empty()) return;
  require_fit(weight.size >= m.rows && has_valid_stride(m), "factored::scale_rows",
              "a weight a row", weight, m);
  do_scale_rows(weight, m);
}

void FactoredKernels::add_sums(MatrixView<const FixedSum> sums, Existing existing,
                               MatrixView<double> m) {
  require_fit(same_shape(sums, m), "factored::add_sums", "sums and m of one shape", sums, m);
  do_add_sums(sums, existing, m);
}

void FactoredKernels::add_to_rows(MatrixView<const double> h, double scale,
                                  MatrixView<const double> added, MatrixView<double> m,
                                  VectorView<double> of_rows) {
  require_fit(same_shape(h, m) && (added.empty() || same_shape(added, m)) && of_rows.size >= m.rows,
              "factored::add_to_rows", "matrices of one shape", h, added, m, of_rows);
  do_add_to_rows(h, scale, added, m, of_rows);
}

void FactoredKernels::send(MatrixView<const double> m, VectorView<const float> weight,
                           MatrixView<float> x) {
  require_fit(x.rows == m.rows && x.cols <= m.cols && has_valid_stride(m) && has_valid_stride(x) &&
                  (weight.empty() || weight.size >= m.rows),
              "factored::send", "m [B x D], x [B x D - 1]", m, x);
  do_send(m, weight, x);
}

void FactoredKernels::combine(double keep, MatrixView<double> a, double scale,
                              MatrixView<const double> b) {
  require_fit(same_shape(a, b), "factored::combine", "a and b of one shape", a, b);
  do_combine(keep, a, scale, b);
}

void FactoredKernels::damp(const DampedMatrix& base, double scale, MatrixView<const double> added,
                           MatrixView<double> m) {
  require_fit(is_square(m, m.rows) && (base.matrix.empty() || same_shape(base.matrix, m)) &&
                  (added.empty() || same_shape(added, m)),
              "factored::damp", "square matrices", base.matrix, added, m);
  do_damp(base, scale, added, m);
}

void FactoredKernels::add_symmetric(double scale, MatrixView<const double> w,
                                    MatrixView<double> g) {
  require_fit(is_square(w, g.rows) && is_square(g, g.rows), "factored::add_symmetric",
              "square matrices", w, g);
  do_add_symmetric(scale, w, g);
}

void FactoredKernels::judge(VectorView<const double> least, double limit, double scale,
                            MatrixView<const double> h, double* share) {
  require_fit(has_valid_stride(h), "factored::judge", "a matrix", h);
  do_judge(least, limit, scale, h, share);
}

void FactoredKernels::look(MatrixView<const double> m, double limit, double* needed) {
  require_fit(has_valid_stride(m), "factored::look", "a matrix", m);
  do_look(m, limit, needed);
}

void FactoredKernels::fold_gram(const double* needed, MatrixView<double> u,
                                MatrixView<double> inverse, MatrixView<double> gram) {
  require_fit(is_square(u, u.rows) && same_shape(u, inverse) && same_shape(u, gram),
              "factored::fold_gram", "square matrices", u, inverse, gram);
  do_fold_gram(needed, u, inverse, gram);
}

void FactoredKernels::set_identity(MatrixView<double> m) {
  require_fit(is_square(m, m.rows), "factored::set_identity", "a square matrix", m);
  do_set_identity(m);
}

void FactoredKernels::store(double value, double* to) {
  do_store(value, to);
}

}  // namespace norn
