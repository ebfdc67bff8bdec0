// SPDX-License-Identifier: Apache-2.0
// The fixed-point kernels' door: shapes are checked here, once for all devices.
#include "norn/kernels/fixed.h"

#include "norn/base/error.h"

namespace norn {
namespace {

void require_sum(const FixedMatrixView& sum, Index rows, Index cols) {
  require(sum.fine.rows == rows && sum.fine.cols == cols,
          "fixed: the fine words differ in shape from the floats");
  require(sum.coarse.rows == rows && sum.coarse.cols == cols,
          "fixed: the coarse words differ in shape from the floats");
  require(sum.coarse_used != nullptr && sum.out_of_range != nullptr,
          "fixed: coarse_used and out_of_range must be given");
}

}  // namespace

void FixedKernels::add(const FixedFormat* format, MatrixView<const float> term,
                       FixedMatrixView sum) {
  require_sum(sum, term.rows, term.cols);
  do_add(format, term, sum);
}

void FixedKernels::set(const FixedFormat* format, MatrixView<const float> term,
                       FixedMatrixView sum) {
  require_sum(sum, term.rows, term.cols);
  do_set(format, term, sum);
}

void FixedKernels::to_delta(FixedFormat* format, std::int64_t adapt_terms, FixedMatrixView sum,
                            const OutputSlope& slope, MatrixView<float> delta,
                            MatrixView<Bfloat16> rounded, float* maximum) {
  require_sum(sum, delta.rows, delta.cols);
  require(slope.y.rows == delta.rows && slope.y.cols == delta.cols,
          "fixed: the outputs differ in shape from the delta");
  require(rounded.data == nullptr || (rounded.rows == delta.rows && rounded.cols == delta.cols),
          "fixed: the rounded delta differs in shape from the delta");
  require(maximum != nullptr, "fixed: maximum must be given");
  do_to_delta(format, adapt_terms, sum, slope, delta, rounded, maximum);
}

void FixedKernels::to_float(const FixedFormat* format, FixedMatrixView sum, MatrixView<float> value,
                            float* maximum) {
  require_sum(sum, value.rows, value.cols);
  do_to_float(format, sum, value, maximum);
}

void FixedKernels::adapt(const float* maximum, std::int64_t terms, FixedFormat* format) {
  require(maximum != nullptr && format != nullptr, "fixed: maximum and format must be given");
  do_adapt(maximum, terms, format);
}

}  // namespace norn
