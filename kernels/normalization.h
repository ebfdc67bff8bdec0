// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"

/// Statistics over a batch: batch normalisation, the sparseness penalty, the cap on delta norms.
namespace norn {

/// Per-unit vectors of one block of a batch-normalised layer, [M] each.
struct BatchNormView {
  VectorView<const float> scale;
  VectorView<const float> bias;
  VectorView<float> running_mean;
  VectorView<float> running_variance;
};

class NormalizationKernels {
 public:
  virtual ~NormalizationKernels() = default;
  static constexpr float epsilon = 1e-5f;  ///< added to variances; cuDNN's minimum, as in DSSTNE
  static constexpr float momentum = 0.1f;  ///< weight of a new batch in the running statistics

  /// z = scale * (z - mean) / sqrt(variance + epsilon) + bias with the batch's own statistics
  /// (variance over B), and running = (1 - momentum) * running + momentum * the batch's (variance
  /// over B - 1).
  ///   z [B x M] in place,  normalised [B x M] (z - mean) / sqrt(...),  inverse_deviation [M]
  /// Ioffe, Szegedy, "Batch normalization", ICML 2015. Sums in float64 in row order.
  void batch_norm(const BatchNormView& norm, MatrixView<float> z, MatrixView<float> normalised,
                  VectorView<float> inverse_deviation);
  /// The same with the running statistics, for prediction.
  void batch_norm_predict(const BatchNormView& norm, MatrixView<float> z);
  /// delta = d cost / d (input of batch_norm) in place of d cost / d output; scale_gradient and
  /// bias_gradient [M] are means over the batch.
  void batch_norm_backward(VectorView<const float> scale, MatrixView<const float> normalised,
                           VectorView<const float> inverse_deviation, MatrixView<float> delta,
                           VectorView<float> scale_gradient, VectorView<float> bias_gradient);

  /// batch_norm() of some of the rows of a batch. A layer's places are rows, too.
  ///   moments [2 M] the sums of z and of z^2 over all `rows` rows of the batch, of which z may
  ///   have none
  void normalise_rows(const BatchNormView& norm, VectorView<const FixedSum> moments, Index rows,
                      MatrixView<float> z, MatrixView<float> normalised,
                      VectorView<float> inverse_deviation);
  /// batch_norm_backward() of these rows; the gradients are means over the examples, of which each
  /// has as many rows.
  ///   products [2 M] the sums of delta and of delta * normalised over all `rows` rows
  void normalise_rows_backward(VectorView<const float> scale, VectorView<const FixedSum> products,
                               Index rows, Index examples, MatrixView<const float> normalised,
                               VectorView<const float> inverse_deviation, MatrixView<float> delta,
                               VectorView<float> scale_gradient, VectorView<float> bias_gradient);

  /// dy(b, c) += beta * (-p / rho + (1 - p) / (1 - rho)), rho = mean over the batch of y(., c) in
  /// [1e-6, 0.999999]. Ng, "Sparse autoencoder", 2011; DSSTNE's convention: not divided by the
  /// batch.
  void sparseness_penalty(float p, float beta, MatrixView<const float> y, MatrixView<float> dy);

  /// sum[b] += sum over c of x(b, c)^2: within x in float64 in a fixed order, then in fixed point,
  /// so that the order of the blocks does not matter. One caller at a time for one sum.
  void add_row_squares(MatrixView<const float> x, VectorView<FixedSum> sum);
  /// Row b of delta is multiplied by min(1, limit / sqrt(squares[b])).
  void clip_rows(float limit, VectorView<const FixedSum> squares, MatrixView<float> delta);

 private:
  virtual void do_batch_norm(const BatchNormView& norm, MatrixView<float> z,
                             MatrixView<float> normalised, VectorView<float> inverse_deviation) = 0;
  virtual void do_batch_norm_predict(const BatchNormView& norm, MatrixView<float> z) = 0;
  virtual void do_batch_norm_backward(VectorView<const float> scale,
                                      MatrixView<const float> normalised,
                                      VectorView<const float> inverse_deviation,
                                      MatrixView<float> delta, VectorView<float> scale_gradient,
                                      VectorView<float> bias_gradient) = 0;
  virtual void do_normalise_rows(const BatchNormView& norm, VectorView<const FixedSum> moments,
                                 Index rows, MatrixView<float> z, MatrixView<float> normalised,
                                 VectorView<float> inverse_deviation) = 0;
  virtual void do_normalise_rows_backward(VectorView<const float> scale,
                                          VectorView<const FixedSum> products, Index rows,
                                          Index examples, MatrixView<const float> normalised,
                                          VectorView<const float> inverse_deviation,
                                          MatrixView<float> delta, VectorView<float> scale_gradient,
                                          VectorView<float> bias_gradient) = 0;
  virtual void do_sparseness_penalty(float p, float beta, MatrixView<const float> y,
                                     MatrixView<float> dy) = 0;
  virtual void do_add_row_squares(MatrixView<const float> x, VectorView<FixedSum> sum) = 0;
  virtual void do_clip_rows(float limit, VectorView<const FixedSum> squares,
                            MatrixView<float> delta) = 0;
};

}  // namespace norn
