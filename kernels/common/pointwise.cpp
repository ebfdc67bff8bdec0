// SPDX-License-Identifier: Apache-2.0
// The pointwise kernels' door: shapes are checked here, once for all devices.
#include "kernels/pointwise.h"

#include "norn/base/error.h"

namespace norn {
namespace {

void require_same_shape(MatrixView<const float> a, MatrixView<const float> b, const char* message) {
  require(a.rows == b.rows && a.cols == b.cols, message);
}

}  // namespace

void PointwiseKernels::set_rows(VectorView<const float> row, MatrixView<float> z) {
  require(row.size == z.cols, "set_rows: the row must be as long as z has columns");
  do_set_rows(row, z);
}

void PointwiseKernels::add(MatrixView<const float> x, MatrixView<float> z) {
  require_same_shape(x, z, "add: x and z differ in shape");
  do_add(x, z);
}

void PointwiseKernels::copy(MatrixView<const float> x, MatrixView<float> z) {
  require_same_shape(x, z, "copy: x and z differ in shape");
  do_copy(x, z);
}

void PointwiseKernels::scale(float factor, MatrixView<float> z) {
  do_scale(factor, z);
}

void PointwiseKernels::cast_to_bf16(MatrixView<const float> x, MatrixView<Bfloat16> bf16) {
  require(x.rows == bf16.rows && x.cols == bf16.cols, "round: x and rounded differ in shape");
  do_cast_to_bf16(x, bf16);
}

void PointwiseKernels::activate(const Activation& f, MatrixView<float> z_to_y) {
  do_activate(f, z_to_y);
}

void PointwiseKernels::activate(const Activation& f, const DropoutMask& dropout,
                                MatrixView<float> z_to_y, const ActivationCopies& copies) {
  const auto fits = [&](const auto& m) {
    return m.data == nullptr || (m.rows == z_to_y.rows && m.cols == z_to_y.cols);
  };
  require(fits(copies.before_dropout) && fits(copies.bf16) && fits(copies.z),
          "activate: results differ in shape from z");
  require(copies.transposed.data == nullptr ||
              (copies.transposed.rows == z_to_y.cols && copies.transposed.cols >= z_to_y.rows),
          "activate: the transposed outputs do not fit those of z");
  require(copies.z.data == nullptr || slope_from(f) == SlopeFrom::z,
          "activate: z is kept for slopes that are written in it alone");
  do_activate_layer(f, dropout, z_to_y, copies);
}

void PointwiseKernels::multiply_slope(const Activation& f, MatrixView<const float> x,
                                      MatrixView<float> delta, MatrixView<Bfloat16> bf16) {
  require_same_shape(x, delta, "multiply_slope: x and delta differ in shape");
  require(bf16.data == nullptr || (bf16.rows == delta.rows && bf16.cols == delta.cols),
          "multiply_slope: delta and its bf16 copy differ in shape");
  do_multiply_slope(f, x, delta, bf16);
}

void PointwiseKernels::sum_columns(MatrixView<const float> delta, float scale,
                                   VectorView<float> sum) {
  const ColumnSum one{delta, scale, sum};
  sum_columns({&one, 1});
}

void PointwiseKernels::sum_columns(std::span<const ColumnSum> sums) {
  for (const ColumnSum& one : sums)
    require(one.sum.size == one.delta.cols, "sum_columns: sum must hold one number a column");
  do_sum_columns(sums);
}

void PointwiseKernels::sum_columns(MatrixView<const Bfloat16> delta, float scale,
                                   VectorView<float> sum) {
  require(sum.size == delta.cols, "sum_columns: sum must hold one number a column");
  do_sum_bf16_columns(delta, scale, sum);
}

void PointwiseKernels::softmax_rows(MatrixView<float> z_to_y) {
  do_softmax_rows(z_to_y);
}

void PointwiseKernels::softmax_rows_backward(MatrixView<const float> y,
                                             MatrixView<float> dy_to_delta) {
  require_same_shape(y, dy_to_delta, "softmax_rows_backward: y and dy differ in shape");
  do_softmax_rows_backward(y, dy_to_delta);
}

void PointwiseKernels::checksum(VectorView<const std::byte> bytes, std::uint64_t* sum) {
  require(sum != nullptr, "checksum: there is no place for the sum");
  if (bytes.size > 0) do_checksum(bytes, sum);
}

}  // namespace norn
