// SPDX-License-Identifier: Apache-2.0
// The normalisation kernels' door: shapes are checked here, once for all devices.
#include "kernels/normalization.h"

#include "norn/base/error.h"

namespace norn {
namespace {

void require_units(const BatchNormView& norm, Index cols) {
  require(norm.scale.size == cols && norm.bias.size == cols && norm.running_mean.size == cols &&
              norm.running_variance.size == cols,
          "batch_norm: scale, bias and running statistics must hold one number a unit");
}

}  // namespace

void NormalizationKernels::batch_norm(const BatchNormView& norm, MatrixView<float> z,
                                      MatrixView<float> normalised,
                                      VectorView<float> inverse_deviation) {
  require_units(norm, z.cols);
  require(normalised.rows == z.rows && normalised.cols == z.cols,
          "batch_norm: normalised and z differ in shape");
  require(inverse_deviation.size == z.cols,
          "batch_norm: inverse_deviation must hold one number a unit");
  require(z.rows > 0, "batch_norm: the batch is empty");
  do_batch_norm(norm, z, normalised, inverse_deviation);
}

void NormalizationKernels::batch_norm_predict(const BatchNormView& norm, MatrixView<float> z) {
  require_units(norm, z.cols);
  do_batch_norm_predict(norm, z);
}

void NormalizationKernels::batch_norm_backward(VectorView<const float> scale,
                                               MatrixView<const float> normalised,
                                               VectorView<const float> inverse_deviation,
                                               MatrixView<float> delta,
                                               VectorView<float> scale_gradient,
                                               VectorView<float> bias_gradient) {
  require(normalised.rows == delta.rows && normalised.cols == delta.cols,
          "batch_norm_backward: normalised and delta differ in shape");
  require(scale.size == delta.cols && inverse_deviation.size == delta.cols &&
              scale_gradient.size == delta.cols && bias_gradient.size == delta.cols,
          "batch_norm_backward: per-unit vectors must hold one number a unit");
  require(delta.rows > 0, "batch_norm_backward: the batch is empty");
  do_batch_norm_backward(scale, normalised, inverse_deviation, delta, scale_gradient,
                         bias_gradient);
}

void NormalizationKernels::normalise_rows(const BatchNormView& norm,
                                          VectorView<const FixedSum> moments, Index rows,
                                          MatrixView<float> z, MatrixView<float> normalised,
                                          VectorView<float> inverse_deviation) {
  require_units(norm, z.cols);
  require(normalised.rows == z.rows && normalised.cols == z.cols,
          "normalise_rows: normalised and z differ in shape");
  require(inverse_deviation.size == z.cols && moments.size == 2 * z.cols,
          "normalise_rows: an inverse_deviation and two moments for every unit");
  require(rows > 0 && z.rows <= rows, "normalise_rows: these are more rows than the batch has");
  do_normalise_rows(norm, moments, rows, z, normalised, inverse_deviation);
}

void NormalizationKernels::normalise_rows_backward(
    VectorView<const float> scale, VectorView<const FixedSum> products, Index rows, Index examples,
    MatrixView<const float> normalised, VectorView<const float> inverse_deviation,
    MatrixView<float> delta, VectorView<float> scale_gradient, VectorView<float> bias_gradient) {
  require(normalised.rows == delta.rows && normalised.cols == delta.cols,
          "normalise_rows_backward: normalised and delta differ in shape");
  require(scale.size == delta.cols && inverse_deviation.size == delta.cols &&
              scale_gradient.size == delta.cols && bias_gradient.size == delta.cols &&
              products.size == 2 * delta.cols,
          "normalise_rows_backward: per-unit vectors must hold one number a unit");
  require(examples > 0 && rows % examples == 0 && delta.rows <= rows,
          "normalise_rows_backward: every example has as many rows");
  do_normalise_rows_backward(scale, products, rows, examples, normalised, inverse_deviation, delta,
                             scale_gradient, bias_gradient);
}

void NormalizationKernels::sparseness_penalty(float p, float beta, MatrixView<const float> y,
                                              MatrixView<float> dy) {
  require(y.rows == dy.rows && y.cols == dy.cols, "sparseness_penalty: y and dy differ in shape");
  if (y.empty()) return;
  do_sparseness_penalty(p, beta, y, dy);
}

void NormalizationKernels::add_row_squares(MatrixView<const float> x, VectorView<FixedSum> sum) {
  require(sum.size == x.rows, "add_row_squares: sum must hold one number a row");
  do_add_row_squares(x, sum);
}

void NormalizationKernels::clip_rows(float limit, VectorView<const FixedSum> squares,
                                     MatrixView<float> delta) {
  require(squares.size == delta.rows, "clip_rows: squares must hold one number a row");
  require(limit > 0.0f, "clip_rows: the limit must be above 0");
  do_clip_rows(limit, squares, delta);
}

}  // namespace norn
