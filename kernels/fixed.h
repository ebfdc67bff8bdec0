// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"
#include "kernels/dropout_mask.h"
#include "norn/base/fixed_point.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

/// Sums over blocks, in fixed point.
namespace norn {

/// What a sum says of itself, in the device's memory.
struct SumFlags {
  std::int64_t coarse_used = 0;   ///< 1 when a partial sum went to a coarse accumulator
  std::int64_t out_of_range = 0;  ///< 1 when one was not finite or beyond the coarse limit
};

/// Two accumulators an element (norn/base/fixed_point.h), and whether the coarse one was used or a
/// partial sum was out of range.
struct FixedMatrixView {
  MatrixView<std::int64_t> fine;
  MatrixView<std::int64_t> coarse;
  std::int64_t* coarse_used = nullptr;   ///< as SumFlags
  std::int64_t* out_of_range = nullptr;  ///< as SumFlags
};

/// Up to kMost partial sums of one sum, all of its shape.
struct PartialSums {
  static constexpr int kMost = 4;
  PartialSums() = default;
  PartialSums(MatrixView<const float> term) : of{term}, count(1) {}
  PartialSums(MatrixView<float> term) : PartialSums(MatrixView<const float>(term)) {}
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

/// Sums of float matrices whose result does not depend on the order of the partial sums. Formats
/// and maxima stand in the device's memory: one step's maximum chooses the next step's format
/// there.
class FixedKernels {
 public:
  virtual ~FixedKernels() = default;
  /// sum += partial_sums, element by element. Several lanes may add to one sum at a time. [B x N]
  /// each
  void add(const FixedFormat* format, const PartialSums& partial_sums, FixedMatrixView sum);
  /// sum = partial_sums, whatever the fine accumulators held; the coarse accumulators are added to
  /// as ever. One caller at a time.
  void set(const FixedFormat* format, const PartialSums& partial_sums, FixedMatrixView sum);
  /// value = sum as float. The coarse accumulators are read only if *coarse_used, and then become 0
  /// again. *maximum becomes the largest magnitude, NaN bits counting as the largest.
  /// With partial sums, the sum is theirs alone, the same bits as if they had been added to
  /// accumulators: `sum` then has no accumulators, only its flag for what is out of range.
  void to_float(const FixedFormat* format, FixedMatrixView sum, const PartialSums& partial_sums,
                MatrixView<float> value, float* maximum);
  void to_float(const FixedFormat* format, FixedMatrixView sum, MatrixView<float> value,
                float* maximum) {
    to_float(format, sum, {}, value, maximum);
  }
  /// The delta of a layer whose outputs' delta is the sum, in one go: to_float(), the slope, and
  /// the result cast to nearest unless `bf16` is empty. *maximum is that of the sum.
  /// adapt_count > 0: adapt(maximum, adapt_count, format) at the end.   [B x N] each
  void to_delta(FixedFormat* format, std::int64_t adapt_count, FixedMatrixView sum,
                const PartialSums& partial_sums, const OutputSlope& slope, MatrixView<float> delta,
                MatrixView<Bfloat16> bf16, float* maximum);
  /// *format = FixedFormat::for_maximum(*maximum, partial_sums); left as it is when the maximum is
  /// 0 or not finite.
  void adapt(const float* maximum, std::int64_t partial_sums, FixedFormat* format);

 private:
  virtual void do_add(const FixedFormat* format, const PartialSums& partial_sums,
                      FixedMatrixView sum) = 0;
  virtual void do_set(const FixedFormat* format, const PartialSums& partial_sums,
                      FixedMatrixView sum) = 0;
  virtual void do_to_float(const FixedFormat* format, FixedMatrixView sum,
                           const PartialSums& partial_sums, MatrixView<float> value,
                           float* maximum) = 0;
  virtual void do_to_delta(FixedFormat* format, std::int64_t adapt_count, FixedMatrixView sum,
                           const PartialSums& partial_sums, const OutputSlope& slope,
                           MatrixView<float> delta, MatrixView<Bfloat16> bf16, float* maximum) = 0;
  virtual void do_adapt(const float* maximum, std::int64_t partial_sums, FixedFormat* format) = 0;
};

}  // namespace norn
