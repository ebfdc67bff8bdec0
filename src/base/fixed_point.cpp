// SPDX-License-Identifier: Apache-2.0
// Chooses the fixed-point format of a tensor of sums.

#include "norn/base/fixed_point.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace norn {

namespace {

constexpr int kWordBits = 62;  // of a sum: one bit of slack and the sign
constexpr int kHeadroomBits =
    16;  // growth from one step to the next before the coarse word is used
constexpr int kMaximumTermBits = 40;
// Wider than float's 2^-149..2^128, and every exponent below stays valid for FixedFormat::power.
constexpr int kMaximumFineBits = 512;

/// The least e with 2^e >= value; value is finite and positive.
int exponent_above(double value) {
  int exponent = 0;
  const double mantissa =
      std::frexp(value, &exponent);  // value = mantissa * 2^exponent, in [1/2, 1)
  return mantissa == 0.5 ? exponent - 1 : exponent;
}

}  // namespace

FixedFormat FixedFormat::for_maximum(double maximum, std::int64_t terms) {
  const double size = std::isfinite(maximum) && maximum != 0 ? std::abs(maximum) : 1.0;
  const int bits = int(std::bit_width(std::uint64_t(std::max<std::int64_t>(terms, 2)) - 1));
  FixedFormat format;
  format.term_bits = std::min(bits, kMaximumTermBits);
  format.fine_bits = std::clamp(kWordBits - format.term_bits - kHeadroomBits - exponent_above(size),
                                -kMaximumFineBits, kMaximumFineBits);
  return format;
}

}  // namespace norn
