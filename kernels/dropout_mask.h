// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "src/base/philox.h"

#include <cmath>
#include <cstdint>

/// Which units dropout leaves out, and what becomes of all of them.
namespace norn {

/// out = a * (kept ? y : left_out) + b. Element (r, c) of a matrix is left out when
/// random.uniform(first_row + r, first_unit + c) < p; callers give a stream of their own to every
/// layer and put the step into `first_row` (step * batch).
/// Of a layer whose rows are places and whose columns are channels, element (r, c) is left out when
/// random.uniform(first_row + r / places, c * places + r % places) < p: by its example, and by its
/// unit in the order of files.
struct DropoutMask {
  float p = 0.0f;
  float a = 1.0f;
  float b = 0.0f;
  float left_out = 0.0f;
  Philox random;
  Index first_row = 0;
  Index first_unit = 0;
  Index places = 1;  ///< of an example

  /// Those that are kept are multiplied by 1 / (1 - p). Throws ShapeError unless 0 <= p < 1.
  static DropoutMask inverted(float p, Philox random, Index first_row, Index first_unit);
  /// For SELU: left-out elements become `saturation` = -lambda * alpha, then an affine map keeps
  /// mean 0 and variance 1. Klambauer et al., NIPS 2017.
  static DropoutMask alpha(float p, float saturation, Philox random, Index first_row,
                           Index first_unit);
  /// d out / d y of every element, as the mask that multiplies a delta by it.
  DropoutMask slope() const {
    DropoutMask mask = *this;
    mask.b = mask.left_out = 0.0f;
    return mask;
  }

  /// The uniform number of element (r, c) where rows are places.
  NORN_HD float chance_of_place(Index r, Index c) const {
    return random.uniform(std::uint64_t(first_row + r / places),
                          std::uint64_t(c * places + r % places));
  }
  NORN_HD bool drops() const { return p > 0.0f; }
  /// `chance`: the element's uniform number.
  NORN_HD float value(float chance, float y) const { return result(chance >= p, y); }
  /// The least random word whose uniform number is p or more: such words keep their element.
  NORN_HD std::uint32_t least_kept() const { return std::uint32_t(std::ceil(p * 0x1p24f)) << 8; }
  NORN_HD float result(bool is_kept, float y) const { return a * (is_kept ? y : left_out) + b; }
};

}  // namespace norn
