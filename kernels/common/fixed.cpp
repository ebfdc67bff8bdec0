// SPDX-License-Identifier: Apache-2.0
// The fixed-point kernels' door: shapes are checked here, once for all devices.
#include "kernels/fixed.h"

#include "norn/base/error.h"

namespace norn {
namespace {

void require_sum(const FixedMatrixView& sum, Index rows, Index cols) {
  require(sum.fine.rows == rows && sum.fine.cols == cols,
          "fixed: the fine accumulators differ in shape from the floats");
  require(sum.coarse.rows == rows && sum.coarse.cols == cols,
          "fixed: the coarse accumulators differ in shape from the floats");
  require(sum.coarse_used != nullptr && sum.out_of_range != nullptr,
          "fixed: coarse_used and out_of_range must be given");
}

void require_partial_sums(const PartialSums& partial_sums, Index rows, Index cols) {
  require(partial_sums.count <= PartialSums::kMost, "fixed: too many partial sums");
  for (int i = 0; i < partial_sums.count; ++i)
    require(partial_sums.of[i].rows == rows && partial_sums.of[i].cols == cols,
            "fixed: the partial sums differ in shape from the sum");
}

/// Of accumulators, or of partial sums.
void require_source(const FixedMatrixView& sum, const PartialSums& partial_sums, Index rows,
                    Index cols) {
  if (partial_sums.count == 0) {
    require_sum(sum, rows, cols);
    return;
  }
  require_partial_sums(partial_sums, rows, cols);
  require(sum.fine.data == nullptr && sum.coarse.data == nullptr,
          "fixed: a sum is of accumulators or of partial sums");
  require(sum.out_of_range != nullptr, "fixed: out_of_range must be given");
}

}  // namespace

void FixedKernels::add(const FixedFormat* format, const PartialSums& partial_sums,
                       FixedMatrixView sum) {
  require_sum(sum, sum.fine.rows, sum.fine.cols);
  require_partial_sums(partial_sums, sum.fine.rows, sum.fine.cols);
  if (partial_sums.count > 0) do_add(format, partial_sums, sum);
}

void FixedKernels::set(const FixedFormat* format, const PartialSums& partial_sums,
                       FixedMatrixView sum) {
  require_sum(sum, sum.fine.rows, sum.fine.cols);
  require_partial_sums(partial_sums, sum.fine.rows, sum.fine.cols);
  require(partial_sums.count > 0, "fixed: a sum is set to no partial sum");
  do_set(format, partial_sums, sum);
}

void FixedKernels::to_delta(FixedFormat* format, std::int64_t adapt_count, FixedMatrixView sum,
                            const PartialSums& partial_sums, const OutputSlope& slope,
                            MatrixView<float> delta, MatrixView<Bfloat16> bf16, float* maximum) {
  require_source(sum, partial_sums, delta.rows, delta.cols);
  require(slope.y.rows == delta.rows && slope.y.cols == delta.cols,
          "fixed: the outputs differ in shape from the delta");
  require(bf16.data == nullptr || (bf16.rows == delta.rows && bf16.cols == delta.cols),
          "fixed: the bf16 delta differs in shape from the delta");
  require(maximum != nullptr, "fixed: maximum must be given");
  do_to_delta(format, adapt_count, sum, partial_sums, slope, delta, bf16, maximum);
}

void FixedKernels::to_float(const FixedFormat* format, FixedMatrixView sum,
                            const PartialSums& partial_sums, MatrixView<float> value,
                            float* maximum) {
  require_source(sum, partial_sums, value.rows, value.cols);
  do_to_float(format, sum, partial_sums, value, maximum);
}

void FixedKernels::adapt(const float* maximum, std::int64_t partial_sums, FixedFormat* format) {
  require(maximum != nullptr && format != nullptr, "fixed: maximum and format must be given");
  do_adapt(maximum, partial_sums, format);
}

}  // namespace norn
