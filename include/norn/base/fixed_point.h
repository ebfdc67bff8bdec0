// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"

#include <cstddef>
#include <cstdint>

/// Sums whose result does not depend on the order or grouping of the terms: integers in a
/// fixed-point format.
namespace norn {

/// The sum of doubles, each rounded to a multiple of 2^-52; the rounded terms are added exactly.
/// Addition is associative and commutative. The sum is NaN, whatever else is added, once a term is
/// not finite or the magnitudes of all terms together reach 2^62.
class FixedSum {
 public:
  NORN_HD void add(double value) {
    const double size = value < 0 ? -value : value;
    if (!(size < 0x1p62)) {
      add_magnitude(kUnbounded);
      return;
    }
    add_magnitude(std::int64_t(size * 0x1p-16));
    // An integer part and a fraction in [0, 1]; a fraction that rounds up to 1 carries. Adding 1/2
    // to a number that is not negative rounds as well on the host as on the device.
    const double whole = floor_of(value);
    // NOLINTNEXTLINE(bugprone-incorrect-roundings)
    add_words(std::int64_t(whole), std::int64_t((value - whole) * 0x1p52 + 0.5));
  }
  NORN_HD void add(const FixedSum& other) {
    add_magnitude(other.magnitude_);
    add_words(other.high_, other.low_);
  }
  NORN_HD bool is_finite() const { return magnitude_ < kLimit; }
  /// The sum, or NaN.
  NORN_HD double value() const {
    if (!is_finite()) return __builtin_nan("");
    const std::int64_t fraction = low_ & ((std::int64_t(1) << 52) - 1);
    return double(high_ + (low_ >> 52)) + double(fraction) * 0x1p-52;
  }

  /// The three accumulators, for a collective that adds them over at most 2^10 ranks: from_words
  /// takes their sums, and sums that were added up in place, word by word, have the right value
  /// too. The value is high + low * 2^-52; magnitude is sum |term| in units of 2^16, by which a sum
  /// beyond its range shows.
  static constexpr std::size_t kWords = 3;
  NORN_HD std::int64_t high() const { return high_; }
  NORN_HD std::int64_t low() const { return low_; }
  NORN_HD std::int64_t magnitude() const { return magnitude_; }
  NORN_HD static FixedSum from_words(std::int64_t high, std::int64_t low, std::int64_t magnitude) {
    FixedSum sum;
    sum.add_magnitude(magnitude);
    sum.add_words(high, low);
    return sum;
  }
  bool operator==(const FixedSum&) const = default;

 private:
  static constexpr std::int64_t kLimit = std::int64_t(1) << 46;      // 2^62 in units of 2^16
  static constexpr std::int64_t kUnbounded = std::int64_t(1) << 48;  // sums of magnitudes stop here

  NORN_HD static double floor_of(double x) {
    const double t = double(std::int64_t(x));
    return t > x ? t - 1 : t;
  }
  NORN_HD void add_magnitude(std::int64_t magnitude) {
    magnitude_ += magnitude;
    if (magnitude_ > kUnbounded) magnitude_ = kUnbounded;
  }
  NORN_HD void add_words(std::int64_t high, std::int64_t low) {
    low += low_;
    low_ = low & ((std::int64_t(1) << 52) - 1);
    // Unsigned: beyond the range the words may wrap, and value() is NaN.
    high_ = std::int64_t(std::uint64_t(high_) + std::uint64_t(high) + std::uint64_t(low >> 52));
  }
  std::int64_t high_ = 0;
  std::int64_t low_ = 0;  // in [0, 2^52), but for sums of several such words
  std::int64_t magnitude_ = 0;
};

static_assert(sizeof(FixedSum) == FixedSum::kWords * sizeof(std::int64_t));

/// The format of one tensor of sums of floats: two int64 accumulators an element, a fine and a
/// coarse one.
///
/// A term smaller than fine_limit() goes to the fine accumulator, in units of 2^-fine_bits; a
/// larger one to the coarse accumulator, in units 2^24 times as large; one that is larger than
/// coarse_limit() or not finite is reported by the adder. Which accumulator a term takes depends on
/// the term alone, so the sums do not depend on the order of the terms.
///
/// `fine_bits` comes from the largest sum of the step before (for_maximum): it has 2^16 of headroom
/// before the coarse accumulator is used at all, and 2^40 before a sum counts as divergence.
struct FixedFormat {
  int fine_bits = 40;
  int term_bits = 12;  ///< log2 of the largest number of terms in one sum

  /// The format for sums that were at most `maximum` in the step before, each of at most `terms`
  /// terms (up to 2^40). A maximum of 0 or one that is not finite counts as 1.
  NORN_HD static FixedFormat for_maximum(double maximum, std::int64_t terms) {
    FixedFormat format;
    format.term_bits = bits_of(terms);
    const int bits = kWordBits - format.term_bits - kHeadroomBits - exponent_above(maximum);
    format.fine_bits = bits > kMaximumFineBits ? kMaximumFineBits : bits;
    if (format.fine_bits < -kMaximumFineBits) format.fine_bits = -kMaximumFineBits;
    return format;
  }

  /// A format that knows of no step before, for sums of at most `terms` terms (up to 2^40). With up
  /// to 2^8 terms, terms from 2^-21 to 2^34 keep all bits of a float, smaller ones what is above
  /// 2^-45; every term more than that takes a bit of the small ones, down to 2^-35 with 2^18.
  NORN_HD static FixedFormat of_any_step(std::int64_t terms) {
    FixedFormat format;
    format.term_bits = bits_of(terms);
    // Fine accumulators hold terms up to 2^10 at least, coarse ones up to 2^34.
    const int bits = kWordBits - format.term_bits - 10;
    format.fine_bits = bits > 44 ? 44 : bits;
    return format;
  }

  NORN_HD static double power(int exponent) {  // 2^exponent, |exponent| <= 1022
    union {
      std::uint64_t bits;
      double value;
    } u = {std::uint64_t(1023 + exponent) << 52};
    return u.value;
  }
  NORN_HD double fine_scale() const { return power(fine_bits); }
  NORN_HD double coarse_scale() const { return power(fine_bits - 24); }
  NORN_HD double fine_limit() const { return power(62 - term_bits - fine_bits); }
  NORN_HD double coarse_limit() const { return power(62 - term_bits - fine_bits + 24); }
  bool operator==(const FixedFormat&) const = default;

 private:
  static constexpr int kWordBits = 62;      // of a sum: one bit of slack and the sign
  static constexpr int kHeadroomBits = 16;  // growth from one step to the next
  static constexpr int kMaximumTermBits = 40;
  // Wider than float's 2^-149..2^128, and every exponent stays valid for power().
  static constexpr int kMaximumFineBits = 512;

  /// The least n from 1 to kMaximumTermBits with 2^n >= terms, or kMaximumTermBits.
  NORN_HD static int bits_of(std::int64_t terms) {
    int bits = 1;
    while (bits < kMaximumTermBits && (std::int64_t(1) << bits) < terms) ++bits;
    return bits;
  }

  /// The least e with 2^e >= |value|, from its bits; of a subnormal number one that is too large,
  /// but beyond kMaximumFineBits all the same; 0 for 0 and what is not finite.
  NORN_HD static int exponent_above(double value) {
    union {
      double value;
      std::uint64_t bits;
    } u = {value};
    const std::uint64_t fraction = u.bits & ((std::uint64_t(1) << 52) - 1);
    const int exponent = int(u.bits >> 52 & 0x7FFu);
    if (exponent == 0x7FF || (exponent == 0 && fraction == 0)) return 0;
    return exponent - 1023 + (fraction != 0 ? 1 : 0);
  }
};

}  // namespace norn
