// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/bfloat16.h"
#include "norn/base/fixed_point.h"
#include "norn/kernels/activation.h"
#include "norn/kernels/dropout_mask.h"
#include "norn/tensor/views.h"

/// Sums over blocks, in fixed point.
namespace norn {

/// Two words an element (norn/base/fixed_point.h), and whether the coarse one was used or a term
/// was out of range.
struct FixedMatrixView {
  MatrixView<std::int64_t> fine;
  MatrixView<std::int64_t> coarse;
  std::int64_t* coarse_used = nullptr;  ///< set to 1 when a term went to a coarse word
  std::int64_t* out_of_range =
      nullptr;  ///< set to 1 when a term was not finite or beyond the coarse limit
};

/// Up to kMost terms of one sum, all of its shape.
struct FixedTerms {
  static constexpr int kMost = 4;
  FixedTerms() = default;
  FixedTerms(MatrixView<const float> term) : of{term}, count(1) {}
  FixedTerms(MatrixView<float> term) : FixedTerms(MatrixView<const float>(term)) {}
  MatrixView<const float> of[kMost];
  int count = 0;
};

/// How d cost / d pre-activation follows from d cost / d output: through dropout, then times f'.
struct OutputSlope {
  Activation f;
  DropoutMask dropout;        ///< slope() of the outputs' mask; where it drops nothing, its factor
  MatrixView<const float> y;  ///< [B x N] f's outputs or what has the same slopes, or z where f's
                              ///< slope is written in it
};

/// Sums of float matrices whose result does not depend on the order of the terms. Formats and
/// maxima stand in the device's memory: one step's maximum chooses the next step's format there.
class FixedKernels {
 public:
  virtual ~FixedKernels() = default;
  /// sum += terms, element by element. Several lanes may add to one sum at a time. [B x N] each
  void add(const FixedFormat* format, const FixedTerms& terms, FixedMatrixView sum);
  /// sum = terms, whatever the fine words held; the coarse words are added to as ever. One caller
  /// at a time.
  void set(const FixedFormat* format, const FixedTerms& terms, FixedMatrixView sum);
  /// value = sum as float. The coarse words are read only if *coarse_used, and then become 0
  /// again. *maximum becomes the largest magnitude, NaN bits counting as the largest.
  /// With terms, the sum is theirs alone, the same bits as if they had been added to words: `sum`
  /// then has no words, only its flag for what is out of range.
  void to_float(const FixedFormat* format, FixedMatrixView sum, const FixedTerms& terms,
                MatrixView<float> value, float* maximum);
  void to_float(const FixedFormat* format, FixedMatrixView sum, MatrixView<float> value,
                float* maximum) {
    to_float(format, sum, {}, value, maximum);
  }
  /// The delta of a layer whose outputs' delta is the sum, in one go: to_float(), the slope, and
  /// the result rounded to nearest unless `rounded` is empty. *maximum is that of the sum.
  /// adapt_terms > 0: adapt(maximum, adapt_terms, format) at the end.   [B x N] each
  void to_delta(FixedFormat* format, std::int64_t adapt_terms, FixedMatrixView sum,
                const FixedTerms& terms, const OutputSlope& slope, MatrixView<float> delta,
                MatrixView<Bfloat16> rounded, float* maximum);
  /// *format = FixedFormat::for_maximum(*maximum, terms); left as it is when the maximum is 0 or
  /// not finite.
  void adapt(const float* maximum, std::int64_t terms, FixedFormat* format);

 private:
  virtual void do_add(const FixedFormat* format, const FixedTerms& terms, FixedMatrixView sum) = 0;
  virtual void do_set(const FixedFormat* format, const FixedTerms& terms, FixedMatrixView sum) = 0;
  virtual void do_to_float(const FixedFormat* format, FixedMatrixView sum, const FixedTerms& terms,
                           MatrixView<float> value, float* maximum) = 0;
  virtual void do_to_delta(FixedFormat* format, std::int64_t adapt_terms, FixedMatrixView sum,
                           const FixedTerms& terms, const OutputSlope& slope,
                           MatrixView<float> delta, MatrixView<Bfloat16> rounded,
                           float* maximum) = 0;
  virtual void do_adapt(const float* maximum, std::int64_t terms, FixedFormat* format) = 0;
};

}  // namespace norn
