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

void require_terms(const FixedTerms& terms, Index rows, Index cols) {
  require(terms.count <= FixedTerms::kMost, "fixed: too many terms");
  for (int i = 0; i < terms.count; ++i)
    require(terms.of[i].rows == rows && terms.of[i].cols == cols,
            "fixed: the terms differ in shape from the sum");
}

/// Of words, or of terms.
void require_source(const FixedMatrixView& sum, const FixedTerms& terms, Index rows, Index cols) {
  if (terms.count == 0) {
    require_sum(sum, rows, cols);
    return;
  }
  require_terms(terms, rows, cols);
  require(sum.fine.data == nullptr && sum.coarse.data == nullptr,
          "fixed: a sum is of words or of terms");
  require(sum.out_of_range != nullptr, "fixed: out_of_range must be given");
}

}  // namespace

void FixedKernels::add(const FixedFormat* format, const FixedTerms& terms, FixedMatrixView sum) {
  require_sum(sum, sum.fine.rows, sum.fine.cols);
  require_terms(terms, sum.fine.rows, sum.fine.cols);
  if (terms.count > 0) do_add(format, terms, sum);
}

void FixedKernels::set(const FixedFormat* format, const FixedTerms& terms, FixedMatrixView sum) {
  require_sum(sum, sum.fine.rows, sum.fine.cols);
  require_terms(terms, sum.fine.rows, sum.fine.cols);
  require(terms.count > 0, "fixed: a sum is set to no term");
  do_set(format, terms, sum);
}

void FixedKernels::to_delta(FixedFormat* format, std::int64_t adapt_terms, FixedMatrixView sum,
                            const FixedTerms& terms, const OutputSlope& slope,
                            MatrixView<float> delta, MatrixView<Bfloat16> rounded, float* maximum) {
  require_source(sum, terms, delta.rows, delta.cols);
  require(slope.y.rows == delta.rows && slope.y.cols == delta.cols,
          "fixed: the outputs differ in shape from the delta");
  require(rounded.data == nullptr || (rounded.rows == delta.rows && rounded.cols == delta.cols),
          "fixed: the rounded delta differs in shape from the delta");
  require(maximum != nullptr, "fixed: maximum must be given");
  do_to_delta(format, adapt_terms, sum, terms, slope, delta, rounded, maximum);
}

void FixedKernels::to_float(const FixedFormat* format, FixedMatrixView sum, const FixedTerms& terms,
                            MatrixView<float> value, float* maximum) {
  require_source(sum, terms, value.rows, value.cols);
  do_to_float(format, sum, terms, value, maximum);
}

void FixedKernels::adapt(const float* maximum, std::int64_t terms, FixedFormat* format) {
  require(maximum != nullptr && format != nullptr, "fixed: maximum and format must be given");
  do_adapt(maximum, terms, format);
}

}  // namespace norn
