// SPDX-License-Identifier: Apache-2.0
// The batch kernels' door: shapes and probabilities are checked and masks reduced to one form here,
// once for all devices.

#include "norn/kernels/batch.h"

#include "kernels/common/shape_text.h"

#include <cmath>

namespace norn {
namespace {

void require_probability(std::string_view operation, float p) {
  if (!(p >= 0.0f && p < 1.0f))
    throw ShapeError(
        fmt::format("{}: probability {} is not in [0, 1); choose a smaller one", operation, p));
}

/// The slope of the affine map that alpha dropout ends with: (q + saturation^2 q (1 - q))^(-1/2)
/// with q = 1 - p.
double alpha_slope(float p, float saturation) {
  const double kept = 1.0 - double(p);
  const double level = double(saturation);
  return 1.0 / std::sqrt(kept + level * level * kept * double(p));
}

}  // namespace

void BatchKernels::prepare(CsrView x, VectorView<const float> weight,
                           VectorView<const Index> example, const InputPreparation& preparation,
                           CsrBuffer& prepared) {
  require_probability("prepare", preparation.denoising);
  require_fit((weight.empty() || weight.size == x.rows) &&
                  (example.size == x.rows || (example.empty() && preparation.denoising == 0.0f)),
              "prepare", "x [B x N], weight [B] or empty, example [B]", x, weight, example);
  do_prepare(x, weight, example, preparation, prepared);
}

void BatchKernels::prepare_dense(MatrixView<const float> data, VectorView<const float> weight,
                                 bool normalise_l2, MatrixView<float> x) {
  require_fit(data.rows == x.rows && data.cols <= x.cols && has_room(data) && has_room(x) &&
                  (weight.empty() || weight.size == x.rows),
              "prepare_dense", "data [B x D], weight [B] or empty, x [B x N] with N >= D", data,
              weight, x);
  do_prepare_dense(data, weight, normalise_l2, x);
}

void BatchKernels::dropout(float p, Philox random, Index first_row, Index first_unit,
                           MatrixView<const float> y, MatrixView<float> out) {
  require_probability("dropout", p);
  require_fit(y.rows == out.rows && y.cols == out.cols && has_room(y) && has_room(out), "dropout",
              "y and out in one shape", y, out);
  do_mask(p, float(1.0 / (1.0 - double(p))), 0.0f, 0.0f, random, first_row, first_unit, y, out);
}

void BatchKernels::dropout_backward(float p, Philox random, Index first_row, Index first_unit,
                                    MatrixView<float> delta) {
  dropout(p, random, first_row, first_unit, delta, delta);
}

void BatchKernels::alpha_dropout(float p, float saturation, Philox random, Index first_row,
                                 Index first_unit, MatrixView<const float> y,
                                 MatrixView<float> out) {
  require_probability("alpha_dropout", p);
  require_fit(y.rows == out.rows && y.cols == out.cols && has_room(y) && has_room(out),
              "alpha_dropout", "y and out in one shape", y, out);
  const double a = alpha_slope(p, saturation);
  const double b = -a * double(p) * double(saturation);
  do_mask(p, float(a), float(b), saturation, random, first_row, first_unit, y, out);
}

void BatchKernels::alpha_dropout_backward(float p, float saturation, Philox random, Index first_row,
                                          Index first_unit, MatrixView<float> delta) {
  require_probability("alpha_dropout_backward", p);
  require_fit(has_room(delta), "alpha_dropout_backward", "rows that do not overlap", delta);
  do_mask(p, float(alpha_slope(p, saturation)), 0.0f, 0.0f, random, first_row, first_unit, delta,
          delta);
}

void BatchKernels::mask(float p, float a, float b, float left_out, Philox random, Index first_row,
                        Index first_unit, MatrixView<const float> y, MatrixView<float> out) {
  require_probability("mask", p);
  require_fit(y.rows == out.rows && y.cols == out.cols && has_room(y) && has_room(out), "mask",
              "y and out in one shape", y, out);
  do_mask(p, a, b, left_out, random, first_row, first_unit, y, out);
}

}  // namespace norn
