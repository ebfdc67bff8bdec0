// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/fixed_point.h"
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

/// Sums of float matrices whose result does not depend on the order of the terms. Formats and
/// maxima stand in the device's memory: one step's maximum chooses the next step's format there.
class FixedKernels {
 public:
  virtual ~FixedKernels() = default;
  /// sum += term, element by element. Several lanes may add to one sum at a time.   [B x N] each
  void add(const FixedFormat* format, MatrixView<const float> term, FixedMatrixView sum);
  /// value = sum as float; the coarse words are read only if *coarse_used. *maximum becomes the
  /// largest magnitude, NaN bits counting as the largest.
  void to_float(const FixedFormat* format, FixedMatrixView sum, MatrixView<float> value,
                float* maximum);
  /// *format = FixedFormat::for_maximum(*maximum, terms); left as it is when the maximum is 0 or
  /// not finite.
  void adapt(const float* maximum, std::int64_t terms, FixedFormat* format);

 private:
  virtual void do_add(const FixedFormat* format, MatrixView<const float> term,
                      FixedMatrixView sum) = 0;
  virtual void do_to_float(const FixedFormat* format, FixedMatrixView sum, MatrixView<float> value,
                           float* maximum) = 0;
  virtual void do_adapt(const float* maximum, std::int64_t terms, FixedFormat* format) = 0;
};

}  // namespace norn
