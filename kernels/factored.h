// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dense.h"
#include "norn/base/fixed_point.h"
#include "src/tensor/block_partition.h"
#include "src/tensor/buffer.h"

#include <cstdint>

/// Output layers whose weights are a product, so that a step of squared error over all units costs
/// no more than the stored targets do: Vincent, de Brebisson, Bouthillier, "Efficient exact
/// gradient update for training deep networks with very large sparse targets", NIPS 2015.
///
/// W = V U, [N x D]: V has a row for each unit, U is small. D is the width of the source and one
/// more, whose activation is 1 and whose weight is the unit's bias.
namespace norn {

/// V, or some rows of it: the last column stands apart.
template <typename T>
struct FactorView {
  MatrixView<T> rows;  ///< [N x D - 1]
  VectorView<T> last;  ///< [N]

  Index units() const { return rows.rows; }
  Index width() const { return rows.cols + 1; }
  FactorView units_of(Range units) const {
    return {rows.row_range(units.begin, units.count()), last.range(units.begin, units.count())};
  }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator FactorView<const T>() const requires(!std::is_const_v<T>) { return {rows, last}; }
};

/// The stored targets of a batch at the units of this rank. Entries are numbered unit by unit,
/// those of a unit in the order of their examples.
struct TargetLists {
  Index examples = 0;
  Index touched = 0;             ///< units with an entry; on a GPU at most so many
  Index entries = 0;             ///< on a GPU at most so many
  Buffer<Index> unit;            ///< [touched] ascending, counted from the rank's first one
  Buffer<Index> begin;           ///< [touched + 1] ranges of entries
  Buffer<std::int32_t> example;  ///< [entries]
  Buffer<Index> entry;           ///< numbers of those of each example; -1: of another rank's unit
  // Of the CPU.
  Buffer<float> target;     ///< [entries] 1 where the batch stores no values
  Buffer<Index> place;      ///< [entries] as `entry`: number of the unit among those touched
  Buffer<Index> row_begin;  ///< [examples + 1] ranges of `entry`
  // Of a GPU, where examples' entries stand as the batch has them.
  CsrView batch;
  Index first_unit = 0;
  Buffer<std::uint32_t> workspace;
};

/// How an entry's cost and delta differ from those of units without one, with z the unit's
/// pre-activation, t its target and w the example's weight:
///   r = sqrt(w) ((one - zero) z - one t),   cost = w (t^2 - 2 z t + ignored z^2) / 2
/// The rest of an example's delta is zero w z for every unit, the rest of its cost w z^2 / 2.
struct EntryRule {
  double one = 1.0;               ///< DeltaBoost of stored targets
  double zero = 1.0;              ///< and of all others; 0 where these are ignored
  double ignored = 0.0;           ///< 1 where units without an entry have no cost
  const float* weight = nullptr;  ///< [B] of the examples; null: 1
};

/// A symmetric matrix is this one plus `damping` times the mean of its diagonal in its own; without
/// one, or where that mean is 0, 1.
struct DampedMatrix {
  MatrixView<const double> matrix;
  double damping = 0.0;
};

/// Everything is kept in float64 but V. On the CPU products and sums of one example, unit or block
/// are made in float32 in an order that their shape fixes, and added to what is kept; a GPU makes
/// them in float64. Those over units are added in fixed point, so that they depend neither on ranks
/// nor on lanes. Costs, Gram terms and factors are float64 altogether. Matrices of the
/// batch and of the source's width stand where V does, and so do numbers behind pointers.
class FactoredKernels {
 public:
  virtual ~FactoredKernels() = default;

  // Of V and of stored targets.
  /// The entries of these units. Column numbers are trusted.   targets [B x N] CSR
  void list(CsrView targets, Range units, TargetLists& lists);
  /// Of each entry z = v h', its r and its cost; and rv(e) = the sum of r v over the entries of
  /// example e, in one pass over the rows of V. `rv` may be empty. The first unit begins a block.
  ///   h [B x D],  r, cost [entries],  rv [B x D]
  void read_entries(const TargetLists& lists, FactorView<const float> v, MatrixView<const double> h,
                    const EntryRule& rule, Index block_width, VectorView<double> r,
                    VectorView<double> cost, MatrixView<FixedSum> rv);
  /// rv(e) = the sum of r v over the entries of example e, of V as it is now.
  void sum_rows(const TargetLists& lists, FactorView<const float> v, VectorView<const double> r,
                Index block_width, MatrixView<FixedSum> rv);
  /// rr(e, f) = the sum of r(e) r(f) over units of which both have an entry, where f < e; half of
  /// it where f is e; else 0. So rr + rr' is R R'. False, and nothing is done, where the device
  /// reads rows of V once more in less time. The first unit begins a block.   rr [B x B]
  bool sum_pairs(const TargetLists& lists, VectorView<const double> r, Index block_width,
                 MatrixView<FixedSum> rr);
  /// The cost of each block of units: of its entries, and of all units in the first one, half of
  /// the sum over `all_units`, if that is not empty.   all_units [B]
  void add_up_costs(const TargetLists& lists, VectorView<const double> cost, Index block_width,
                    VectorView<const double> all_units, VectorView<double> of_blocks);
  /// v -= scale * the sum over a unit's entries of r k(e): each row that has one, once.  k [B x D]
  void update_rows(const TargetLists& lists, VectorView<const double> r, double scale,
                   MatrixView<const double> k, FactorView<float> v);
  /// v = v u: the product folded back, where *needed is not 0. The first unit begins a block.
  ///   u [D x D]
  void fold(MatrixView<const double> u, Index block_width, const double* needed,
            FactorView<float> v);
  /// w = v u's columns, without a change of v.   w [N x columns]
  void product(FactorView<const float> v, MatrixView<const double> u, Range columns,
               MatrixView<float> w);
  /// g += v' v, as one term: of a block of units.   g [D x D]
  void add_gram(FactorView<const float> v, MatrixView<FixedSum> g);
  /// z = h v': a row depends on its example alone.   h [B x D],  z [B x N]
  void values(MatrixView<const double> h, FactorView<const float> v, MatrixView<float> z);

  // Of matrices of the batch and of the source's width.
  enum class As { it_is, transposed };
  /// float32: what a step adds to something, so that roundings are relative to that. float64: what
  /// is factorised.
  enum class Operands { float32, float64 };
  /// c = scale a b, or c += it. On a GPU always of float64.
  void multiply(double scale, MatrixView<const double> a, As a_as, MatrixView<const double> b,
                As b_as, Existing existing, MatrixView<double> c,
                Operands operands = Operands::float32);
  /// Which ones k = h c, scale k h' and what is solved with 1 + scale k h' need: float32 where that
  /// rounds the last to far less than its 1.   h [B x D],  c [D x D]
  Operands operands_of(double scale, MatrixView<const double> h, MatrixView<const double> c);
  /// Prepares solve() in place of one or two symmetric matrices of one size, of which the lower
  /// triangle is read. least[i]: the least pivot of each; where that is not above 0 the rest is
  /// undefined.
  void factorize(MatrixView<double> a, MatrixView<double> b, VectorView<double> least);
  /// x = a^-1 b, from what factorize() left of a. b and x may be one.
  void solve(MatrixView<const double> factor, MatrixView<const double> b, MatrixView<double> x,
             Operands operands = Operands::float64);
  /// x = a^-1.
  void invert(MatrixView<const double> factor, MatrixView<double> x);

  /// h = x, of bf16 where it has that, and a column of ones: what ranks give each other.
  ///   x [B x D - 1],  h [B x D]
  void set_source(DenseOperand x, MatrixView<double> h);
  /// Each row by the root of its weight. No weights: nothing.
  void scale_rows(VectorView<const float> weight, MatrixView<double> m);
  /// m += or = sums.
  void add_sums(MatrixView<const FixedSum> sums, Existing existing, MatrixView<double> m);
  /// of_rows(e) = the sum over j of m(e, j) h(e, j); then m = scale m + added, if there is one.
  void add_to_rows(MatrixView<const double> h, double scale, MatrixView<const double> added,
                   MatrixView<double> m, VectorView<double> of_rows);
  /// x = the first columns of m, each row by the root of its weight.   x [B x D - 1]
  void send(MatrixView<const double> m, VectorView<const float> weight, MatrixView<float> x);
  /// a = keep a + scale b. keep 0: whatever a was.
  void combine(double keep, MatrixView<double> a, double scale, MatrixView<const double> b);
  /// m = base + scale added.
  void damp(const DampedMatrix& base, double scale, MatrixView<const double> added,
            MatrixView<double> m);
  /// g += scale (w + w').
  void add_symmetric(double scale, MatrixView<const double> w, MatrixView<double> g);
  /// Where a least pivot is below `limit`, *share = what the eigenvalues of scale h' h are at most:
  /// the largest sum over a row of |h|' |h|, or 1 if that is no number above 0.
  void judge(VectorView<const double> least, double limit, double scale, MatrixView<const double> h,
             double* share);
  /// *needed = 1 where an element of m is beyond `limit`, else 0.
  void look(MatrixView<const double> m, double limit, double* needed);
  /// gram = u' gram u, u = inverse = 1: with fold(), where *needed is not 0.
  void fold_gram(const double* needed, MatrixView<double> u, MatrixView<double> inverse,
                 MatrixView<double> gram);
  void set_identity(MatrixView<double> m);
  void store(double value, double* to);

 private:
  virtual void do_list(CsrView targets, Range units, TargetLists& lists) = 0;
  virtual void do_read_entries(const TargetLists& lists, FactorView<const float> v,
                               MatrixView<const double> h, const EntryRule& rule, Index block_width,
                               VectorView<double> r, VectorView<double> cost,
                               MatrixView<FixedSum> rv) = 0;
  virtual void do_sum_rows(const TargetLists& lists, FactorView<const float> v,
                           VectorView<const double> r, Index block_width,
                           MatrixView<FixedSum> rv) = 0;
  virtual bool do_sum_pairs(const TargetLists&, VectorView<const double>, Index,
                            MatrixView<FixedSum>) {
    return false;
  }
  virtual void do_add_up_costs(const TargetLists& lists, VectorView<const double> cost,
                               Index block_width, VectorView<const double> all_units,
                               VectorView<double> of_blocks) = 0;
  virtual void do_update_rows(const TargetLists& lists, VectorView<const double> r, double scale,
                              MatrixView<const double> k, FactorView<float> v) = 0;
  virtual void do_fold(MatrixView<const double> u, Index block_width, const double* needed,
                       FactorView<float> v) = 0;
  virtual void do_product(FactorView<const float> v, MatrixView<const double> u, Range columns,
                          MatrixView<float> w) = 0;
  virtual void do_add_gram(FactorView<const float> v, MatrixView<FixedSum> g) = 0;
  virtual void do_values(MatrixView<const double> h, FactorView<const float> v,
                         MatrixView<float> z) = 0;
  virtual void do_multiply(double scale, MatrixView<const double> a, As a_as,
                           MatrixView<const double> b, As b_as, Existing existing,
                           MatrixView<double> c, Operands operands) = 0;
  virtual Operands do_operands_of(double, MatrixView<const double>, MatrixView<const double>) {
    return Operands::float64;
  }
  virtual void do_factorize(MatrixView<double> a, MatrixView<double> b,
                            VectorView<double> least) = 0;
  virtual void do_solve(MatrixView<const double> factor, MatrixView<const double> b,
                        MatrixView<double> x, Operands operands) = 0;
  virtual void do_invert(MatrixView<const double> factor, MatrixView<double> x) {
    do_set_identity(x);
    do_solve(factor, x, x, Operands::float64);
  }
  virtual void do_set_source(const DenseOperand& x, MatrixView<double> h) = 0;
  virtual void do_scale_rows(VectorView<const float> weight, MatrixView<double> m) = 0;
  virtual void do_add_sums(MatrixView<const FixedSum> sums, Existing existing,
                           MatrixView<double> m) = 0;
  virtual void do_add_to_rows(MatrixView<const double> h, double scale,
                              MatrixView<const double> added, MatrixView<double> m,
                              VectorView<double> of_rows) = 0;
  virtual void do_send(MatrixView<const double> m, VectorView<const float> weight,
                       MatrixView<float> x) = 0;
  virtual void do_combine(double keep, MatrixView<double> a, double scale,
                          MatrixView<const double> b) = 0;
  virtual void do_damp(const DampedMatrix& base, double scale, MatrixView<const double> added,
                       MatrixView<double> m) = 0;
  virtual void do_add_symmetric(double scale, MatrixView<const double> w, MatrixView<double> g) = 0;
  virtual void do_judge(VectorView<const double> least, double limit, double scale,
                        MatrixView<const double> h, double* share) = 0;
  virtual void do_look(MatrixView<const double> m, double limit, double* needed) = 0;
  virtual void do_fold_gram(const double* needed, MatrixView<double> u, MatrixView<double> inverse,
                            MatrixView<double> gram) = 0;
  virtual void do_set_identity(MatrixView<double> m) = 0;
  virtual void do_store(double value, double* to) = 0;
};

}  // namespace norn
