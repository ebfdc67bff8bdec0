// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

/// Products of dense matrices. Weights of a dense source are stored [M x N]: one row per
/// destination unit.
namespace norn {

/// What becomes of the values that a result held before.
enum class Existing { overwrite, add };

/// Sums run in an order that the shapes alone fix, so a block's product has the same bits wherever
/// it is computed. On the CPU, runs of whole tiles (256 rows x 512 columns of the result) have the
/// bits that they have in the product of the whole.
class DenseKernels {
 public:
  virtual ~DenseKernels() = default;

  /// z = x * w^T (or z += x * w^T).
  ///   x [B x N] activations of the source,  w [M x N] weights of a block of units,  z [B x M]
  /// Throws ShapeError unless the shapes fit. Cost: 2*B*M*N flops.
  void multiply_transposed(MatrixView<const float> x, MatrixView<const float> w,
                           MatrixView<float> z, Existing existing);

  /// dx = delta * w: one block's part of the source's delta.
  ///   delta [B x M],  w [M x N],  dx [B x N] overwritten
  void multiply(MatrixView<const float> delta, MatrixView<const float> w, MatrixView<float> dx);

  /// g = scale * delta^T * x: the weight gradient of a block.
  ///   delta [B x M],  x [B x N],  g [M x N] overwritten
  void gradient(MatrixView<const float> delta, MatrixView<const float> x, float scale,
                MatrixView<float> g);

 private:
  virtual void do_multiply_transposed(MatrixView<const float> x, MatrixView<const float> w,
                                      MatrixView<float> z, Existing existing) = 0;
  virtual void do_multiply(MatrixView<const float> delta, MatrixView<const float> w,
                           MatrixView<float> dx) = 0;
  virtual void do_gradient(MatrixView<const float> delta, MatrixView<const float> x, float scale,
                           MatrixView<float> g) = 0;
};

}  // namespace norn
