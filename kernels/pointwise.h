// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"
#include "kernels/dropout_mask.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

#include <cstddef>
#include <cstdint>
#include <span>

/// Work on one element, row or column at a time.
namespace norn {

/// sum[c] = scale * sum over rows of delta(r, c).   delta [B x M], sum [M]
struct ColumnSum {
  MatrixView<const float> delta;
  float scale = 1.0f;
  VectorView<float> sum;
};

/// What activate() keeps or makes of a layer's outputs beside them; each of it may be empty.
struct ActivationCopies {
  MatrixView<float> before_dropout{};  ///< [B x M] f(z)
  MatrixView<Bfloat16> bf16{};         ///< [B x M] the outputs in bf16, to nearest
  MatrixView<float> transposed{};  ///< [M x at least B] the outputs transposed, zeros behind them
  MatrixView<float> z{};           ///< [B x M] z, for slopes that are written in it
};

class PointwiseKernels {
 public:
  virtual ~PointwiseKernels() = default;

  /// Every row of z becomes `row`.   row [M],  z [B x M]
  void set_rows(VectorView<const float> row, MatrixView<float> z);
  /// z += x.   [B x M] each
  void add(MatrixView<const float> x, MatrixView<float> z);
  /// z = x.   [B x M] each
  void copy(MatrixView<const float> x, MatrixView<float> z);
  /// z = factor * z.   [B x M]
  void scale(float factor, MatrixView<float> z);
  /// bf16 = x to nearest.   [B x M] each
  void cast_to_bf16(MatrixView<const float> x, MatrixView<Bfloat16> bf16);
  /// y = f(z) in place.
  void activate(const Activation& f, MatrixView<float> z_to_y);
  /// The same, then dropout unless the mask drops nothing, in one go.
  void activate(const Activation& f, const DropoutMask& dropout, MatrixView<float> z_to_y,
                const ActivationCopies& copies);
  /// delta = delta * f'(x), x being y or z as f.slope_from says, and its bf16 copy to nearest where
  /// one is wanted.   [B x M] each
  void multiply_slope(const Activation& f, MatrixView<const float> x, MatrixView<float> delta,
                      MatrixView<Bfloat16> bf16 = {});
  /// Sums of several matrices' columns in one go, each added in row order in float64.
  void sum_columns(std::span<const ColumnSum> sums);
  /// sum[c] = scale * sum over rows of delta(r, c) of one matrix, or of its bf16 deltas.
  void sum_columns(MatrixView<const float> delta, float scale, VectorView<float> sum);
  void sum_columns(MatrixView<const Bfloat16> delta, float scale, VectorView<float> sum);

  /// SoftMax of every row, in place; the sums run in column order in float64.
  void softmax_rows(MatrixView<float> z_to_y);
  /// delta(r, c) = y(r, c) * (dy(r, c) - sum_k dy(r, k) y(r, k)), in place of dy.
  void softmax_rows_backward(MatrixView<const float> y, MatrixView<float> dy_to_delta);

  /// *sum += checksum() of these bytes, wrapping (src/base/checksum.h); it stands in the device's
  /// memory.
  void checksum(VectorView<const std::byte> bytes, std::uint64_t* sum);

 private:
  virtual void do_set_rows(VectorView<const float> row, MatrixView<float> z) = 0;
  virtual void do_add(MatrixView<const float> x, MatrixView<float> z) = 0;
  virtual void do_copy(MatrixView<const float> x, MatrixView<float> z) = 0;
  virtual void do_scale(float factor, MatrixView<float> z) = 0;
  virtual void do_cast_to_bf16(MatrixView<const float> x, MatrixView<Bfloat16> bf16) = 0;
  virtual void do_activate(const Activation& f, MatrixView<float> z_to_y) = 0;
  virtual void do_activate_layer(const Activation& f, const DropoutMask& dropout,
                                 MatrixView<float> z_to_y, const ActivationCopies& copies) = 0;
  virtual void do_multiply_slope(const Activation& f, MatrixView<const float> x,
                                 MatrixView<float> delta, MatrixView<Bfloat16> bf16) = 0;
  virtual void do_sum_columns(std::span<const ColumnSum> sums) = 0;
  virtual void do_sum_bf16_columns(MatrixView<const Bfloat16> delta, float scale,
                                   VectorView<float> sum) = 0;
  virtual void do_softmax_rows(MatrixView<float> z_to_y) = 0;
  virtual void do_softmax_rows_backward(MatrixView<const float> y,
                                        MatrixView<float> dy_to_delta) = 0;
  virtual void do_checksum(VectorView<const std::byte> bytes, std::uint64_t* sum) = 0;
};

}  // namespace norn
