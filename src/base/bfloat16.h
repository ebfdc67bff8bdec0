// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"

#include <cstdint>

namespace norn {

/// The upper half of a float: 8 bits of exponent, 7 of fraction. Operands of dense products on
/// devices that have matrix units for it; sums are always in float.
struct Bfloat16 {
  std::uint16_t bits = 0;

  /// Rounded to nearest, halves to even; NaN stays NaN.
  NORN_HD static Bfloat16 rounded(float value) {
    union {
      float value;
      std::uint32_t bits;
    } u = {value};
    Bfloat16 result;
    if ((u.bits & 0x7FFFFFFFu) > 0x7F800000u)
      result.bits = std::uint16_t(u.bits >> 16 | 0x40u);
    else
      result.bits = std::uint16_t((u.bits + 0x7FFFu + (u.bits >> 16 & 1u)) >> 16);
    return result;
  }
  NORN_HD float value() const {
    union {
      std::uint32_t bits;
      float value;
    } u = {std::uint32_t(bits) << 16};
    return u.value;
  }
};

}  // namespace norn
