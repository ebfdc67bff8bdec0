// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"
#include "kernels/dense.h"
#include "kernels/window.h"
#include "norn/base/fixed_point.h"

#include <span>
#include <variant>

/// Layers without weights: the largest unit or the mean of a window, local response normalisation,
/// the largest unit of several sources, and how alike two sources are.
namespace norn {

/// y = the largest unit of a window. Of equal ones the first in the order (z, y, x) takes the
/// delta. A NaN is larger than all else, and of several the first takes the delta.
struct MaxPooling {};

/// y = the mean of the units of a window; those outside of the source do not count.
struct AveragePooling {};

/// y(c) = x(c) * (k + alpha / n * sum of x(i)^2)^-beta over the n channels i of the same place from
/// c - (n - 1) / 2 on, as many as there are. Krizhevsky, Sutskever, Hinton, "ImageNet
/// classification with deep convolutional neural networks", NIPS 2012, whose alpha is alpha / n
/// here. What is raised to a power is 2^-126 at least, so that k may be 0.
struct LocalResponseNormalization {
  float k = 2.0f;
  int n = 5;
  float alpha = 1e-4f;
  float beta = 0.75f;
};

/// y = the largest of the sources, unit by unit. Of equal ones the first source takes the delta. A
/// NaN is larger than all else. Goodfellow et al., "Maxout networks", ICML 2013.
struct Maxout {};

using Pooling = std::variant<MaxPooling, AveragePooling, LocalResponseNormalization, Maxout>;

/// y = a . b, or a . b / ((|a| + 1e-8) (|b| + 1e-8)).
enum class Similarity { dot_product, cosine };

/// What a pooling reads. Without windows (LRN, Maxout, similarities) those of `window` are its
/// places, one unit each.
struct PoolingSource {
  Window window;
  DenseOperand x;  ///< [E x places*C], as the window orders it
};

/// Sums over the units of an example, [E] each.
template <typename Sum>
struct PairSums {
  VectorView<Sum> products;        ///< a . b
  VectorView<Sum> first_squares;   ///< |a|^2; empty for dot products
  VectorView<Sum> second_squares;  ///< |b|^2; empty for dot products

  /// Of the same pair with b as the first.
  PairSums swapped() const { return {products, second_squares, first_squares}; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator PairSums<const Sum>() const requires(!std::is_const_v<Sum>) {
    return {products, first_squares, second_squares};
  }
};

/// Results stand channels last; sources as their Window says. Nothing of an example depends on the
/// others: not on how many there are, nor on where it stands. Bits do not depend on lanes. Operands
/// are read as floats where they have any, else in bf16; the latter, and results in bf16, are for
/// devices that compute in bfloat16. All functions throw ShapeError unless the shapes fit.
class PoolingKernels {
 public:
  virtual ~PoolingKernels() = default;
  static constexpr double norm_epsilon = 1e-8;  ///< added to the norms of a cosine, as in DSSTNE

  /// y = the pooling of the sources: the largest one of Maxout, of all others the sum of what each
  /// source gives. Every window must have a unit.
  ///   y [E x windows*C]; of Maxout [E x units], as the first source has them, but channels last
  void forward(const Pooling& pooling, std::span<const PoolingSource> sources,
               const DenseResult& y);

  /// dx = d cost / d (x of one of the sources), or dx += it. A unit takes what its windows give in
  /// the order of windows. What is added to has floats.
  ///   delta [E x windows*C], as y,  dx [E x places*C], as the source
  void backward(const Pooling& pooling, std::span<const PoolingSource> sources, std::size_t source,
                const DenseOperand& delta, const DenseResult& dx, Existing existing);

  /// dx = that times f'(x), where the source's x are outputs of f whose slope is written in them:
  /// what backward() and PointwiseKernels::multiply_slope() make, bit by bit. Says whether this
  /// device makes it in one pass; else nothing has been done.
  ///   dx [E x places*C]
  bool backward_through(const Pooling& pooling, std::span<const PoolingSource> sources,
                        std::size_t source, const DenseOperand& delta, const Activation& f,
                        const DenseResult& dx);

  /// Adds the products and squares of these units to the sums: within a row in float64 in a fixed
  /// order, then in fixed point, so that the order of the blocks of units does not matter (what is
  /// below 2^-52 is lost). Unit i of one source goes with unit i of the other in the order of
  /// files. One caller at a time for one sum.
  void add_pair_sums(const PoolingSource& first, const PoolingSource& second,
                     const PairSums<FixedSum>& sums);

  /// y(e) from the sums over all units.   y [E x 1]
  void compare(Similarity similarity, const PairSums<const FixedSum>& sums, MatrixView<float> y);

  /// dx = d cost / d first.x, or dx += it; that of the second source by sums.swapped(). Where |a|
  /// is 0, so is the part that comes from its derivative.
  ///   delta [E x 1],  dx [E x units], as the first source
  void compare_backward(Similarity similarity, const PairSums<const FixedSum>& sums,
                        MatrixView<const float> delta, const PoolingSource& first,
                        const PoolingSource& second, MatrixView<float> dx, Existing existing);

 private:
  virtual void do_forward(const Pooling& pooling, std::span<const PoolingSource> sources,
                          const DenseResult& y) = 0;
  virtual void do_backward(const Pooling& pooling, std::span<const PoolingSource> sources,
                           std::size_t source, const DenseOperand& delta, const DenseResult& dx,
                           Existing existing) = 0;
  virtual bool do_backward_through(const Pooling&, std::span<const PoolingSource>, std::size_t,
                                   const DenseOperand&, const Activation&, const DenseResult&) {
    return false;
  }
  virtual void do_add_pair_sums(const PoolingSource& first, const PoolingSource& second,
                                const PairSums<FixedSum>& sums) = 0;
  virtual void do_compare(Similarity similarity, const PairSums<const FixedSum>& sums,
                          MatrixView<float> y) = 0;
  virtual void do_compare_backward(Similarity similarity, const PairSums<const FixedSum>& sums,
                                   MatrixView<const float> delta, const PoolingSource& first,
                                   const PoolingSource& second, MatrixView<float> dx,
                                   Existing existing) = 0;
};

}  // namespace norn
