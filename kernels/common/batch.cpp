// SPDX-License-Identifier: Apache-2.0
// The batch kernels' door: shapes and probabilities are checked and masks reduced to one form here,
// once for all devices.

#include "kernels/batch.h"

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

void BatchKernels::gather(CsrView stored, VectorView<const Index> row, Index entries,
                          CsrBuffer& gathered) {
  require_fit(entries >= 0, "gather", "a number of entries", stored, row);
  do_gather(stored, row, entries, gathered);
}

void BatchKernels::gather(MatrixView<const float> stored, VectorView<const Index> row,
                          MatrixView<float> x) {
  require_fit(row.size == x.rows && stored.cols == x.cols && has_valid_stride(stored) &&
                  has_valid_stride(x),
              "gather", "stored [R x N], row [B], x [B x N]", stored, row, x);
  do_gather(stored, row, x);
}

ColumnRuns BatchKernels::find_runs(CsrView x, Range columns, VectorView<int> workspace) {
  require_fit(columns.begin >= 0 && columns.begin <= columns.end &&
                  workspace.size >= ColumnRuns::size(x.rows, columns.count()),
              "find_runs", "room [ColumnRuns::size] for the columns", x, workspace);
  const ColumnRuns runs{workspace.data, ColumnRuns::stride_of(x.rows), columns};
  if (runs.stride > 0) do_find_runs(x, runs, workspace.data);
  return runs;
}

void BatchKernels::prepare(CsrView x, VectorView<const float> weight,
                           VectorView<const Index> example, const InputPreparation& preparation,
                           CsrBuffer& prepared) {
  require_probability("prepare", preparation.denoising);
  require_fit((weight.empty() || weight.size == x.rows) &&
                  (example.size == x.rows || (example.empty() && preparation.denoising == 0.0f)),
              "prepare", "x [B x N], weight [B] or empty, example [B]", x, weight, example);
  require_fit(preparation.feature_weight.empty() || preparation.feature_weight.size >= x.cols,
              "prepare", "x [B x N], feature_weight [N] or empty", x, preparation.feature_weight);
  do_prepare(x, weight, example, preparation, prepared);
}

void BatchKernels::prepare_dense(MatrixView<const float> data, VectorView<const float> weight,
                                 bool normalise_l2, MatrixView<float> x) {
  require_fit(data.rows == x.rows && data.cols <= x.cols && has_valid_stride(data) &&
                  has_valid_stride(x) && (weight.empty() || weight.size == x.rows),
              "prepare_dense", "data [B x D], weight [B] or empty, x [B x N] with N >= D", data,
              weight, x);
  do_prepare_dense(data, weight, normalise_l2, x);
}

DropoutMask DropoutMask::inverted(float p, Philox random, Index first_row, Index first_unit) {
  require_probability("dropout", p);
  return {p, float(1.0 / (1.0 - double(p))), 0.0f, 0.0f, random, first_row, first_unit, 1};
}

DropoutMask DropoutMask::alpha(float p, float saturation, Philox random, Index first_row,
                               Index first_unit) {
  require_probability("alpha_dropout", p);
  const double a = alpha_slope(p, saturation);
  const double b = -a * double(p) * double(saturation);
  return {p, float(a), float(b), saturation, random, first_row, first_unit, 1};
}

void BatchKernels::mask(const DropoutMask& mask, MatrixView<const float> y, MatrixView<float> out) {
  require_probability("mask", mask.p);
  require_fit(
      y.rows == out.rows && y.cols == out.cols && has_valid_stride(y) && has_valid_stride(out),
      "mask", "y and out in one shape", y, out);
  do_mask(mask, y, out);
}

}  // namespace norn
