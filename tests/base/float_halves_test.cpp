// SPDX-License-Identifier: Apache-2.0
// Floats in two halves: the bits of every kind of float, and which ones round to other bfloat16s
// than to even.
#include "src/base/float_halves.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// Lower halves where something begins or ends, and some more.
std::vector<std::uint32_t> lower_halves(std::mt19937& random) {
  std::vector<std::uint32_t> all{0, 1, 2, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF};
  for (int i = 0; i < 7; ++i) all.push_back(random() & 0xFFFFu);
  return all;
}

class FloatHalvesTest : public ::testing::Test {
 protected:
  FloatHalvesTest() { RecordProperty("seed", int(seed_ & 0x7fffffff)); }
  /// body(bits) for all signs, exponents and upper parts of fractions.
  template <typename Body>
  void for_floats(const Body& body) {
    const std::vector<std::uint32_t> lower = lower_halves(random_);
    for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
      for (const std::uint32_t low : lower) body(upper << 16 | low);
  }
  const unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
};

TEST_F(FloatHalvesTest, TogetherAreTheFloatBitForBit) {
  for_floats([](std::uint32_t bits) {
    const FloatHalves halves = FloatHalves::of(float_of(bits));
    if (!std::isnan(float_of(bits))) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(halves.joined()), bits) << std::hex << bits;
      return;
    }
    ASSERT_TRUE(std::isnan(halves.high.value()) && std::isnan(halves.joined())) << std::hex << bits;
    ASSERT_EQ(std::signbit(halves.joined()), std::signbit(float_of(bits))) << std::hex << bits;
  });
}

// In float64, which has all of these numbers and what lies half way between them.
TEST_F(FloatHalvesTest, UpperHalfIsTheNearestBfloat16) {
  const double beyond = std::ldexp(1.0, 128);
  const auto value_of = [&](std::uint16_t bits) {
    const double value = Bfloat16{bits}.value();
    return std::isinf(value) ? std::copysign(beyond, value) : value;
  };
  for_floats([&](std::uint32_t bits) {
    const double value = float_of(bits);
    if (!std::isfinite(value)) return;
    const auto down = std::uint16_t(bits >> 16), up = std::uint16_t(down + 1);  // by magnitude
    const double to_down = std::abs(value - value_of(down));
    const double to_up = std::abs(value - value_of(up));
    ASSERT_EQ(FloatHalves::of(float_of(bits)).high.bits, to_down < to_up ? down : up)
        << std::hex << bits;
  });
}

// Of the floats half way between two bfloat16s one in two goes elsewhere than to even: one for each
// even upper half of a finite number. No other float does, nor NaN.
TEST_F(FloatHalvesTest, DifferFromRoundingToEvenHalfWayAlone) {
  std::int64_t differ = 0;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (std::uint32_t low = 0; low < 0x10000; low += low >= 0x7F00 && low < 0x8100 ? 1 : 0x100) {
      const float value = float_of(upper << 16 | low);
      if (FloatHalves::of(value).high.bits == Bfloat16::rounded(value).bits) continue;
      ++differ;
      ASSERT_EQ(low, 0x8000u) << std::hex << upper;
      ASSERT_EQ(upper & 1u, 0u) << std::hex << upper;
      ASSERT_TRUE(std::isfinite(value));
    }
  EXPECT_EQ(differ, 2 * 0x7F80 / 2);
}

}  // namespace
}  // namespace norn
