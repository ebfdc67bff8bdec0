// SPDX-License-Identifier: Apache-2.0
// Sums in fixed point: the same words in any order and grouping, near to the exact sum.

#include "norn/base/fixed_point.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> random_terms(std::mt19937_64& random, int count) {
  std::uniform_real_distribution<double> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-70, 40);
  std::vector<double> terms;
  for (int i = 0; i < count; ++i) terms.push_back(std::ldexp(mantissa(random), exponent(random)));
  return terms;
}

FixedSum sum_of(const std::vector<double>& terms) {
  FixedSum sum;
  for (double term : terms) sum.add(term);
  return sum;
}

class RandomTerms : public testing::Test {
 protected:
  void SetUp() override { RecordProperty("seed", std::to_string(seed_)); }
  const std::uint64_t seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
};

TEST_F(RandomTerms, GiveEqualWordsInAnyOrderAndGrouping) {
  std::vector<double> terms = random_terms(random_, 5000);
  const FixedSum expected = sum_of(terms);
  for (int trial = 0; trial < 20; ++trial) {
    std::shuffle(terms.begin(), terms.end(), random_);
    std::vector<FixedSum> groups(1 + random_() % 7);
    for (double term : terms) groups[random_() % groups.size()].add(term);
    FixedSum sum;
    std::int64_t high = 0, low = 0, magnitude = 0;
    for (const FixedSum& group : groups) {
      sum.add(group);
      high += group.high();
      low += group.low();
      magnitude += group.magnitude();
    }
    const FixedSum from_words = FixedSum::from_words(high, low, magnitude);
    for (const FixedSum& other : {sum, from_words}) {
      EXPECT_EQ(other.high(), expected.high());
      EXPECT_EQ(other.low(), expected.low());
      EXPECT_EQ(other.value(), expected.value());
    }
  }
}

TEST_F(RandomTerms, SumToTheExactValueWithinTheUnit) {
  const std::vector<double> terms = random_terms(random_, 2000);
  __float128 exact = 0;  // 113 bits hold these sums to 2^-70
  for (double term : terms) exact += term;
  const FixedSum sum = sum_of(terms);
  const __float128 words = __float128(sum.high()) + __float128(sum.low()) * 0x1p-52;
  // Each term is rounded by at most half a unit of 2^-52, or one when the rounding itself rounds.
  EXPECT_LE(std::abs(double(words - exact)), double(terms.size()) * 0x1p-52);
  EXPECT_NEAR(sum.value(), double(exact), std::abs(double(exact)) * 0x1p-51 + 2000 * 0x1p-52);
}

TEST(FixedSum, RoundsEachTermToTheNearestUnit) {
  for (double value : {0.0, 1.0, -1.0, 0.5, -0.5, 1e-3, -1e-3, 123456.789, -123456.789, 0x1p-52,
                       -0x1p-52, 0x1p52, -0x1p52, 0x1p61, -0x1p61}) {
    FixedSum sum;
    sum.add(value);
    EXPECT_NEAR(sum.value(), value, 0x1p-53) << value;
    EXPECT_EQ(std::rint(value) == value, sum.low() == 0) << value;
  }
}

TEST(FixedSum, TinyNegativeTermCarriesIntoTheWholePart) {
  FixedSum sum;
  sum.add(-0x1p-80);  // its fraction, 1 - 2^-80, rounds up to 1
  EXPECT_EQ(sum.high(), 0);
  EXPECT_EQ(sum.low(), 0);
  sum.add(-std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(sum.value(), 0.0);
}

TEST(FixedSum, SmallTermsSurviveBesideLargeOnes) {
  FixedSum sum;
  sum.add(0x1p60);
  sum.add(0x1p-50);
  sum.add(-0x1p60);
  EXPECT_EQ(sum.value(), 0x1p-50);
}

TEST(FixedSum, IsNanOnceATermIsNotFiniteOrTooLarge) {
  for (double bad : {kNan, kInfinity, -kInfinity, 0x1p62, -0x1p62, 1e300}) {
    FixedSum sum;
    sum.add(1.0);
    EXPECT_TRUE(sum.is_finite());
    sum.add(bad);
    sum.add(-2.0);
    EXPECT_FALSE(sum.is_finite()) << bad;
    EXPECT_TRUE(std::isnan(sum.value())) << bad;
    FixedSum other;
    other.add(sum);
    EXPECT_TRUE(std::isnan(other.value())) << bad;
  }
}

TEST(FixedSum, IsNanWhenTheSumLeavesTheRange) {
  FixedSum sum;
  for (int i = 0; i < 100; ++i) sum.add(i % 2 == 0 ? 0x1p61 : 0x1.8p61);
  EXPECT_TRUE(std::isnan(sum.value()));
  FixedSum doubled;
  doubled.add(0x1p20);
  for (int i = 0; i < 200; ++i) doubled.add(FixedSum(doubled));
  EXPECT_TRUE(std::isnan(doubled.value()));
}

TEST(FixedFormat, PowersAreThoseOfLdexp) {
  for (int e : {-1022, -600, -53, -1, 0, 1, 24, 62, 600, 1022}) {
    EXPECT_EQ(FixedFormat::power(e), std::ldexp(1.0, e)) << e;
  }
}

TEST(FixedFormat, LeavesTheStatedHeadroomAndNoMore) {
  for (double maximum : {1e-30, 3e-9, 0.25, 0.3, 1.0, 1.5, 2.0, 7e4, 3e38}) {
    for (std::int64_t terms : {1, 2, 3, 4096, 4097, 10000000}) {
      const FixedFormat format = FixedFormat::for_maximum(maximum, terms);
      EXPECT_GE(format.fine_limit(), maximum * 0x1p16) << maximum << " " << terms;
      EXPECT_LT(format.fine_limit(), maximum * 0x1p17) << maximum << " " << terms;
      EXPECT_EQ(format.coarse_limit(), format.fine_limit() * 0x1p24);
      EXPECT_GE(std::ldexp(1.0, format.term_bits), double(terms));
      EXPECT_LT(std::ldexp(1.0, format.term_bits), 2 * double(std::max<std::int64_t>(terms, 2)));
    }
  }
}

TEST(FixedFormat, MaximumThatSaysNothingCountsAsOne) {
  const FixedFormat one = FixedFormat::for_maximum(1.0, 100);
  for (double maximum : {0.0, -0.0, kNan, kInfinity, -kInfinity}) {
    EXPECT_EQ(FixedFormat::for_maximum(maximum, 100), one) << maximum;
  }
  EXPECT_EQ(FixedFormat::for_maximum(-8.0, 100), FixedFormat::for_maximum(8.0, 100));
}

TEST(FixedFormat, ExtremeMaximaAndCountsGiveValidScales) {
  for (double maximum : {std::numeric_limits<double>::denorm_min(), 1e-300, 1e300,
                         std::numeric_limits<double>::max()}) {
    for (std::int64_t terms : {std::int64_t(-5), std::int64_t(0), std::int64_t(1),
                               std::numeric_limits<std::int64_t>::max()}) {
      const FixedFormat format = FixedFormat::for_maximum(maximum, terms);
      for (double scale : {format.fine_scale(), format.coarse_scale(), format.fine_limit(),
                           format.coarse_limit()}) {
        EXPECT_TRUE(std::isnormal(scale) && scale > 0) << maximum << " " << terms;
      }
    }
  }
}

TEST(FixedFormat, OfAnyStepTakesWhatPreActivationsAre) {
  for (std::int64_t terms : {1, 2, 8, 200, 256, 257, 5000, 200'000}) {
    const FixedFormat format = FixedFormat::of_any_step(terms);
    EXPECT_GE(std::ldexp(1.0, format.term_bits), double(terms)) << terms;
    EXPECT_GE(format.fine_limit(), 0x1p10) << terms;
    EXPECT_GE(format.coarse_limit(), 0x1p34) << terms;
    EXPECT_EQ(format.coarse_limit(), format.fine_limit() * 0x1p24) << terms;
    EXPECT_GE(format.fine_bits, terms <= 256 ? 44 : 34) << terms;
    // Bits of a term that is just too large for the fine accumulators.
    EXPECT_GE(std::log2(format.fine_limit() * format.coarse_scale()), terms <= 256 ? 24 : 20);
  }
  EXPECT_GE(std::log2(1e-6 * FixedFormat::of_any_step(256).fine_scale()), 24);
}

TEST_F(RandomTerms, OfTheLargestAllowedSizeAndCountFitTheWords) {
  constexpr std::int64_t kTerms = 1000;
  for (const FixedFormat& format :
       {FixedFormat::for_maximum(3.7, kTerms), FixedFormat::of_any_step(kTerms)}) {
    const double largest = std::nextafter(format.fine_limit(), 0.0);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < kTerms; ++i) {
      ASSERT_FALSE(__builtin_add_overflow(sum, std::llrint(largest * format.fine_scale()), &sum));
    }
    EXPECT_LE(sum, std::int64_t(1) << 62);
  }
}

TEST_F(RandomTerms, OfFloatsSumInAFormatToFloatAccuracy) {
  std::normal_distribution<float> normal;
  constexpr int kTerms = 4096;
  const FixedFormat format = FixedFormat::for_maximum(64.0, kTerms);
  std::int64_t sum = 0;
  long double exact = 0;
  for (int i = 0; i < kTerms; ++i) {
    const float term = normal(random_) * 1e-3f;
    sum += std::llrint(double(term) * format.fine_scale());
    exact += static_cast<long double>(term);
  }
  EXPECT_NEAR(double(sum) / format.fine_scale(), double(exact), kTerms * 0.5 / format.fine_scale());
}

}  // namespace
}  // namespace norn
