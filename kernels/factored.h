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
  Index touched = 0;  ///< units with an entry
  Index entries = 0;
  Buffer<Index> unit;            ///< [touched] ascending, counted from the rank's first one
  Buffer<Index> begin;           ///< [touched + 1] ranges of entries
  Buffer<std::int32_t> example;  ///< [entries]
  Buffer<float> target;          ///< [entries] 1 where the batch stores no values
  Buffer<Index> place;           ///< [entries] number of the unit among those touched
  Buffer<Index> row_begin;       ///< [examples + 1] ranges of `entry`
  Buffer<Index> entry;           ///< [entries] those of each example, ascending
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

/// Everything is kept in float64 but V. Products and sums of one example, unit or block are made in
/// float32 in an order that their shape fixes, and added to what is kept; those over units are
/// added in fixed point, block by block of units, so that they depend neither on ranks nor on
/// lanes. Costs, overlaps, Gram terms and factors are float64 altogether.
class FactoredKernels {
 public:
  virtual ~FactoredKernels() = default;

  /// The entries of these units. Column numbers are trusted.   targets [B x N] CSR
  void list(CsrView targets, Range units, TargetLists& lists);
  /// Of each entry z = v h', its r and its cost; and rv(e) += r v over the entries of example e,
  /// in one pass over the rows of V. `rv` may be empty. The first unit begins a block.
  ///   h [B x D],  r, cost [entries],  rv [B x D]
  void read_entries(const TargetLists& lists, FactorView<const float> v, MatrixView<const double> h,
                    const EntryRule& rule, Index block_width, VectorView<double> r,
                    VectorView<double> cost, MatrixView<FixedSum> rv);
  /// s(e, f) += the sum over units of r(e) r(f), for f <= e.   s [B x B]
  void add_overlaps(const TargetLists& lists, VectorView<const double> r, MatrixView<FixedSum> s);
  /// v -= scale * the sum over a unit's entries of r k(e): each row that has one, once.  k [B x D]
  void update_rows(const TargetLists& lists, VectorView<const double> r, double scale,
                   MatrixView<const double> k, FactorView<float> v);

  /// v = v u: the product folded back.   u [D x D]
  void fold(MatrixView<const double> u, FactorView<float> v);
  /// w = v u's columns, without a change of v.   w [N x columns]
  void product(FactorView<const float> v, MatrixView<const double> u, Range columns,
               MatrixView<float> w);
  /// g += v' v, as one term: of a block of units.   g [D x D]
  void add_gram(FactorView<const float> v, MatrixView<FixedSum> g);
  /// z = h v': a row depends on its example alone.   h [B x D],  z [B x N]
  void values(MatrixView<const double> h, FactorView<const float> v, MatrixView<float> z);

  enum class As { it_is, transposed };
  /// c = scale a b, or c += it.
  void multiply(double scale, MatrixView<const double> a, As a_as, MatrixView<const double> b,
                As b_as, Existing existing, MatrixView<double> c);
  /// The lower triangle of `a`, which is symmetric, becomes its Cholesky factor; above that it is
  /// undefined. The least pivot that was found: where that is not above 0 the rest is undefined.
  double factorize(MatrixView<double> a);
  /// b = a^-1 b, from the factor of a.
  void solve(MatrixView<const double> factor, MatrixView<double> b);

 private:
  virtual void do_list(CsrView targets, Range units, TargetLists& lists) = 0;
  virtual void do_read_entries(const TargetLists& lists, FactorView<const float> v,
                               MatrixView<const double> h, const EntryRule& rule, Index block_width,
                               VectorView<double> r, VectorView<double> cost,
                               MatrixView<FixedSum> rv) = 0;
  virtual void do_add_overlaps(const TargetLists& lists, VectorView<const double> r,
                               MatrixView<FixedSum> s) = 0;
  virtual void do_update_rows(const TargetLists& lists, VectorView<const double> r, double scale,
                              MatrixView<const double> k, FactorView<float> v) = 0;
  virtual void do_fold(MatrixView<const double> u, FactorView<float> v) = 0;
  virtual void do_product(FactorView<const float> v, MatrixView<const double> u, Range columns,
                          MatrixView<float> w) = 0;
  virtual void do_add_gram(FactorView<const float> v, MatrixView<FixedSum> g) = 0;
  virtual void do_values(MatrixView<const double> h, FactorView<const float> v,
                         MatrixView<float> z) = 0;
  virtual void do_multiply(double scale, MatrixView<const double> a, As a_as,
                           MatrixView<const double> b, As b_as, Existing existing,
                           MatrixView<double> c) = 0;
  virtual double do_factorize(MatrixView<double> a) = 0;
  virtual void do_solve(MatrixView<const double> factor, MatrixView<double> b) = 0;
};

}  // namespace norn
