// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

#include <span>

/// Products of dense matrices. Weights of a dense source are stored [M x N]: one row per
/// destination unit.
namespace norn {

/// A matrix that takes part in a product. On a device that computes in bfloat16 the product reads
/// `bf16`, the same matrix in that format; where it is missing, the device casts a copy. Others
/// read `values` alone. Where only `bf16` was computed, values.data is null.
/// A device that computes in tf32 may read `transposed` for gradients, transpose() of the values;
/// where it is missing, the device transposes a copy.
struct DenseOperand {
  MatrixView<const float> values;
  MatrixView<const Bfloat16> bf16;
  MatrixView<const float> transposed;  ///< [cols x rows, rounded up to a multiple of 4], or empty
  /// Zeros that lie behind `bf16`: products may take them along where that makes whole runs of
  /// 16 bytes of the sums over its rows or columns.
  Index zero_rows = 0;
  Index zero_cols = 0;

  DenseOperand() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a matrix is an operand
  DenseOperand(MatrixView<const float> all) : values(all) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  DenseOperand(MatrixView<float> all) : values(all) {}
  DenseOperand(MatrixView<const float> all, MatrixView<const Bfloat16> copy)
      : values(all), bf16(copy) {}
  Index rows() const { return values.rows; }
  Index cols() const { return values.cols; }
  /// Whether there are no floats to read.
  bool is_bf16_alone() const { return values.data == nullptr && bf16.data != nullptr; }
  DenseOperand columns(Index first, Index count) const {
    const MatrixView<const float> none{nullptr, values.rows, count, values.stride};
    DenseOperand part{values.data ? values.columns(first, count) : none,
                      bf16.data ? bf16.columns(first, count) : MatrixView<const Bfloat16>{}};
    if (transposed.data) part.transposed = transposed.row_range(first, count);
    part.zero_rows = zero_rows;
    part.zero_cols = first + count == cols() ? zero_cols : 0;
    return part;
  }
  DenseOperand row_range(Index first, Index count) const {
    const MatrixView<const float> none{nullptr, count, values.cols, values.stride};
    DenseOperand part{values.data ? values.row_range(first, count) : none,
                      bf16.data ? bf16.row_range(first, count) : MatrixView<const Bfloat16>{}};
    part.zero_rows = first + count == rows() ? zero_rows : 0;
    part.zero_cols = zero_cols;
    return part;
  }
};

/// Where a result goes: floats and their bf16 copy, or one of them, whose other has no memory. The
/// floats have the shape all the same.
struct DenseResult {
  MatrixView<float> values;
  MatrixView<Bfloat16> bf16{};

  DenseResult() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a matrix takes a result
  DenseResult(MatrixView<float> all) : values(all) {}
  DenseResult(MatrixView<float> all, MatrixView<Bfloat16> copy) : values(all), bf16(copy) {}
  // NOLINTNEXTLINE(google-explicit-constructor): and is an operand then
  operator DenseOperand() const { return {values, bf16}; }
  Index rows() const { return values.rows; }
  Index cols() const { return values.cols; }
  bool empty() const { return values.empty(); }
  /// Whether it goes to bf16 alone.
  bool is_bf16_alone() const { return values.data == nullptr && bf16.data != nullptr; }
  DenseResult row_range(Index first, Index count) const {
    DenseResult part{{nullptr, count, values.cols, values.stride}};
    if (values.data != nullptr) part.values = values.row_range(first, count);
    if (bf16.data != nullptr) part.bf16 = bf16.row_range(first, count);
    return part;
  }
};

/// What becomes of the values that a result held before.
enum class Existing { overwrite, add };

/// Products on the way from sources to destinations. Sums run in an order that the shapes alone
/// fix, so a block's product has the same bits wherever it is computed.
///
/// A call may take several blocks of units: `block` says how many units each has, the last one
/// perhaps fewer. Then the bits of a block depend on `block` and on its own shape, not on which
/// other blocks are in the call. 0: all units are one product, whose bits may be others.
class DenseProducts {
 public:
  virtual ~DenseProducts() = default;

  /// z = x * w^T (or z += x * w^T).
  ///   x [B x N] activations of the source,  w [M x N] weights of a block of units,  z [B x M]
  /// Throws ShapeError unless the shapes fit. Cost: 2*B*M*N flops.
  void multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z, Existing existing,
                           Index block = 0);

  /// z = x * w^T + bias, bias [M] added to every row.
  void affine(DenseOperand x, DenseOperand w, VectorView<const float> bias, MatrixView<float> z,
              Index block = 0);
  /// dx = delta * w: one block's part of the source's delta.
  ///   delta [B x M],  w [M x N],  dx [B x N] overwritten
  void multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx);

 private:
  virtual void do_multiply_transposed(DenseOperand x, DenseOperand w, MatrixView<float> z,
                                      Existing existing, Index block) = 0;
  virtual void do_affine(DenseOperand x, DenseOperand w, VectorView<const float> bias,
                         MatrixView<float> z, Index block) = 0;
  virtual void do_multiply(DenseOperand delta, DenseOperand w, MatrixView<float> dx) = 0;
};

/// All products. On the CPU, runs of whole tiles (256 rows x 512 columns of the result) have the
/// bits that they have in the product of the whole.
class DenseKernels : public DenseProducts {
 public:
  /// The products whose rows stand alone, for predictions: the bits of a row of the result follow
  /// from that row of the first operand, from the second one and from how wide the result is, but
  /// not from other rows, how many there are or where the row stands. On the CPU they do not even
  /// follow from other columns: every element is a sum of its own, in an order that the depth alone
  /// fixes (kernels/cpu/row_product.h), on any processor. Valid as long as these kernels.
  virtual DenseProducts& by_row() = 0;

  /// dx[i] = delta * w over the units of block i alone: its part of the source's delta. The parts
  /// have one stride and are equally far apart, by a multiple of it.
  ///   delta [B x M],  w [M x N],  dx [blocks] of [B x N] overwritten
  void multiply_each(DenseOperand delta, DenseOperand w, Index block,
                     std::span<const MatrixView<float>> dx);

  /// g = scale * delta^T * x (or g += it): the weight gradient of a block.
  ///   delta [B x M],  x [B x N],  g [M x N]
  void gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g,
                Existing existing = Existing::overwrite, Index block = 0);

  /// transposed(c, r) = x(r, c), and zero in its columns beyond the rows of x.
  ///   x [B x N],  transposed [N x at least B]
  void transpose(MatrixView<const float> x, MatrixView<float> transposed);

 private:
  virtual void do_multiply_each(DenseOperand delta, DenseOperand w, Index block,
                                std::span<const MatrixView<float>> dx) = 0;
  virtual void do_gradient(DenseOperand delta, DenseOperand x, float scale, MatrixView<float> g,
                           Existing existing, Index block) = 0;
  virtual void do_transpose(MatrixView<const float> x, MatrixView<float> transposed) = 0;
};

}  // namespace norn
