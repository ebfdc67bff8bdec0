// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/bfloat16.h"

#include <cstdint>

namespace norn {

/// A float in two halves of 16 bits. The upper half is the float as a bfloat16, rounded to nearest,
/// halfway cases away from zero; the lower half is how many units of the float's bits lie between
/// the two. Together they are the float, bit for bit; NaN stays NaN.
/// Halfway cases cannot go to even: an even upper half would stand for 2^16 + 1 floats, and a lower
/// half tells 2^16 apart.
struct FloatHalves {
  Bfloat16 high;
  std::int16_t low = 0;

  /// What has the upper half of a float of these bits in its upper 16 bits.
  NORN_HD static std::uint32_t rounded_bits(std::uint32_t bits) {
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? bits | 0x400000u : bits + 0x8000u;
  }
  /// The bits of a float, from a word of both halves: the lower one has a sign.
  NORN_HD static std::uint32_t joined_bits(std::uint32_t word) {
    return word - ((word & 0x8000u) << 1);
  }

  NORN_HD static FloatHalves of(float value) {
    union {
      float value;
      std::uint32_t bits;
    } u = {value};
    return {{std::uint16_t(rounded_bits(u.bits) >> 16)}, std::int16_t(std::uint16_t(u.bits))};
  }
  NORN_HD float joined() const {
    union {
      std::uint32_t bits;
      float value;
    } u = {joined_bits(std::uint32_t(high.bits) << 16 | std::uint16_t(low))};
    return u.value;
  }
};

}  // namespace norn
