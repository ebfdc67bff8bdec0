// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"

#include <cstdint>

/// Sums whose result does not depend on the order or grouping of the terms: integers in a
/// fixed-point format.
namespace norn {

/// An exact sum of doubles rounded to 2^-52, of magnitude up to 2^62. Addition is associative and
/// commutative.
class FixedSum {
 public:
  NORN_HD void add(double value) {
    // An integer part and a fraction in [0, 1) as a multiple of 2^-52: both exact.
    const double whole = floor_of(value);
    high_ += std::int64_t(whole);
    low_ += std::int64_t((value - whole) * 0x1p52 + 0.5);
    normalise();
  }
  NORN_HD void add(const FixedSum& other) {
    high_ += other.high_;
    low_ += other.low_;
    normalise();
  }
  NORN_HD double value() const { return double(high_) + double(low_) * 0x1p-52; }

  /// The two words, for a collective that adds them: the sum of words of many ranks is added by
  /// from_words.
  std::int64_t high() const { return high_; }
  std::int64_t low() const { return low_; }
  static FixedSum from_words(std::int64_t high, std::int64_t low) {
    FixedSum sum;
    sum.high_ = high;
    sum.low_ = low;
    sum.normalise();
    return sum;
  }

 private:
  NORN_HD static double floor_of(double x) {
    const double t = double(std::int64_t(x));
    return t > x ? t - 1 : t;
  }
  NORN_HD void normalise() {
    high_ += low_ >> 52;
    low_ &= (std::int64_t(1) << 52) - 1;
  }
  std::int64_t high_ = 0;
  std::int64_t low_ = 0;  // in [0, 2^52)
};

/// The format of one tensor of sums of floats: two 64-bit words an element, a fine and a coarse
/// one.
///
/// A term smaller than fine_limit() goes to the fine word, in units of 2^-fine_bits; a larger one
/// to the coarse word, in units 2^24 times as large; one that is larger than coarse_limit() or not
/// finite is reported by the adder. Which word a term takes depends on the term alone, so the sums
/// do not depend on the order of the terms.
///
/// `fine_bits` comes from the largest sum of the step before (for_maximum): it has 2^16 of headroom
/// before the coarse word is used at all, and 2^40 before a sum counts as divergence.
struct FixedFormat {
  int fine_bits = 40;
  int term_bits = 12;  ///< log2 of the largest number of terms in one sum

  /// The format for sums that were at most `maximum` in the step before, each of at most `terms`
  /// terms.
  static FixedFormat for_maximum(double maximum, std::int64_t terms);

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
};

}  // namespace norn
