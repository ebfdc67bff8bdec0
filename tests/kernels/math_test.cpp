// SPDX-License-Identifier: Apache-2.0
// Accuracy of the float functions of kernels, over their whole range, against float64.
#include "kernels/math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Largest error of actual(x) relative to expected(x) over `steps` points from low to high.
template <typename Actual, typename Expected>
double largest_relative_error(double low, double high, int steps, const Actual& actual,
                              const Expected& expected) {
  double largest = 0;
  for (int i = 0; i <= steps; ++i) {
    const float x = float(low + (high - low) * i / steps);
    const double truth = expected(double(x));
    if (truth == 0.0) continue;
    largest = std::max(largest, std::abs(double(actual(x)) - truth) / std::abs(truth));
  }
  return largest;
}

TEST(Math, ExpIsAccurateOverItsRange) {
  const double error = largest_relative_error(
      -87, 87, 2'000'000, [](float x) { return math::exp(x); },
      [](double x) { return std::exp(x); });
  EXPECT_LT(error, 1.5e-7);
  EXPECT_EQ(math::exp(0.0f), 1.0f);
}

TEST(Math, ExpBeyondItsRangeIsItsValueAtTheBound) {
  EXPECT_EQ(math::exp(-kInfinity), math::exp(-87.0f));
  EXPECT_EQ(math::exp(-1e30f), math::exp(-87.0f));
  EXPECT_EQ(math::exp(kInfinity), math::exp(87.0f));
  EXPECT_GT(math::exp(-87.0f), 0.0f);
  EXPECT_LT(math::exp(-87.0f), 2e-38f);
  EXPECT_TRUE(std::isfinite(math::exp(87.0f)));
}

TEST(Math, Expm1IsAccurateNearZeroAndFar) {
  const auto actual = [](float x) { return math::expm1(x); };
  const auto expected = [](double x) { return std::expm1(x); };
  EXPECT_LT(largest_relative_error(-87, 87, 2'000'000, actual, expected), 2e-7);
  EXPECT_LT(largest_relative_error(-1, 1, 2'000'000, actual, expected), 2e-7);
  EXPECT_LT(largest_relative_error(-1e-6, 1e-6, 20'000, actual, expected), 2e-7);
  EXPECT_EQ(math::expm1(0.0f), 0.0f);
  EXPECT_EQ(math::expm1(-kInfinity), -1.0f);
}

TEST(Math, LogIsAccurateOverItsRange) {
  double largest = 0;
  for (float x = 1e-45f; x < 3e38f; x = std::max(std::nextafter(x, 1e38f), x * 1.00013f)) {
    const double truth = std::log(double(x));
    const double error = std::abs(double(math::log(x)) - truth);
    if (truth != 0.0) largest = std::max(largest, error / std::abs(truth));
  }
  EXPECT_LT(largest, 2e-7);
  const double near_one = largest_relative_error(
      0.5, 2, 2'000'000, [](float x) { return math::log(x); },
      [](double x) { return std::log(x); });
  EXPECT_LT(near_one, 2e-7);
}

TEST(Math, LogAtTheEndsOfItsDomain) {
  EXPECT_EQ(math::log(1.0f), 0.0f);
  EXPECT_EQ(math::log(0.0f), -kInfinity);
  EXPECT_EQ(math::log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(math::log(-1.0f)));
}

TEST(Math, TanhIsAccurateAndOdd) {
  const auto actual = [](float x) { return math::tanh(x); };
  const auto expected = [](double x) { return std::tanh(x); };
  EXPECT_LT(largest_relative_error(-20, 20, 2'000'000, actual, expected), 2.5e-7);
  EXPECT_LT(largest_relative_error(-1, 1, 2'000'000, actual, expected), 2.5e-7);
  EXPECT_EQ(math::tanh(kInfinity), 1.0f);
  EXPECT_EQ(math::tanh(-kInfinity), -1.0f);
  for (float x : {1e-30f, 0.1f, 0.6249f, 0.625f, 3.0f, 50.0f})
    EXPECT_EQ(math::tanh(-x), -math::tanh(x)) << x;
}

TEST(Math, NormalBelowIsAccurateInBothTails) {
  const auto actual = [](float z) { return math::normal_below(z); };
  const auto expected = [](double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; };
  EXPECT_LT(largest_relative_error(0, 30, 1'000'000, actual, expected), 4e-7);
  EXPECT_LT(largest_relative_error(-1, 0, 1'000'000, actual, expected), 6e-7);
  // The square in the power is rounded.
  EXPECT_LT(largest_relative_error(-12, -1, 1'000'000, actual, expected), 1e-5);
  EXPECT_EQ(math::normal_below(0.0f), 0.5f);
  EXPECT_EQ(math::normal_below(kInfinity), 1.0f);
  EXPECT_EQ(math::normal_below(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(math::normal_below(kNan)));
}

TEST(Math, Log1pUnitIsAccurate) {
  const double error = largest_relative_error(
      0, 1, 2'000'000, [](float e) { return math::log1p_unit(e); },
      [](double e) { return std::log1p(e); });
  EXPECT_LT(error, 2.5e-7);
}

TEST(Math, SoftplusIsAccurateForBothSigns) {
  const double error = largest_relative_error(
      -80, 80, 2'000'000, [](float z) { return math::softplus(z); },
      [](double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); });
  EXPECT_LT(error, 4e-7);
}

TEST(Math, NanIsHandedOn) {
  for (float x : {kNan, -kNan}) {
    EXPECT_TRUE(std::isnan(math::exp(x)));
    EXPECT_TRUE(std::isnan(math::expm1(x)));
    EXPECT_TRUE(std::isnan(math::log(x)));
    EXPECT_TRUE(std::isnan(math::tanh(x)));
    EXPECT_TRUE(std::isnan(math::log1p_unit(x)));
    EXPECT_TRUE(std::isnan(math::softplus(x)));
  }
}

/// What a loop that the compiler vectorises gives must not depend on where in it an element is.
TEST(Math, VectorBodyAndTailRoundAlike) {
  std::vector<float> inputs;
  for (int i = 0; i < 1003; ++i) inputs.push_back(-8.0f + 0.016f * float(i));
  const auto check = [&](const auto& function) {
    std::vector<float> whole(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) whole[i] = function(inputs[i]);
    for (std::size_t first = 0; first < 70; ++first) {
      std::vector<float> part(inputs.size() - first);
      for (std::size_t i = 0; i < part.size(); ++i) part[i] = function(inputs[first + i]);
      for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[first + i]);
    }
  };
  check([](float x) { return math::exp(x); });
  check([](float x) { return math::expm1(x); });
  check([](float x) { return math::tanh(x); });
  check([](float x) { return math::softplus(x); });
  check([](float x) { return math::log(x + 9.0f); });
}

}  // namespace
}  // namespace norn
