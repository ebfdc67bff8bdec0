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
