// SPDX-License-Identifier: Apache-2.0
#include "src/nn/entry_weights.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace norn {
namespace {

TEST(EntryWeights, AreTheFormulasOfTheirSchemes) {
  std::mt19937_64 random(std::random_device{}());
  std::uniform_real_distribution<float> number(0.01f, 50.0f);
  for (int i = 0; i < 1000; ++i) {
    const float v = number(random);
    const float alpha = number(random), epsilon = number(random);
    const auto near = [](double x) { return 1e-6 * x; };
    EXPECT_EQ((EntryWeights{EntryWeightScheme::value}.weight(v)), v);
    const double linear = 1 + double(alpha) * double(v);
    EXPECT_NEAR((EntryWeights{EntryWeightScheme::linear, alpha}.weight(v)), linear, near(linear));
    const double log = 1 + double(alpha) * std::log(1 + double(v) / double(epsilon));
    EXPECT_NEAR((EntryWeights{EntryWeightScheme::log, alpha, epsilon}.weight(v)), log, near(log));
  }
}

TEST(EntryWeights, OfNothingAreOneButForTheValueItself) {
  EXPECT_EQ(EntryWeights{EntryWeightScheme::value}.weight(0.0f), 0.0f);
  EXPECT_EQ((EntryWeights{EntryWeightScheme::linear, 40.0f}.weight(0.0f)), 1.0f);
  EXPECT_EQ((EntryWeights{EntryWeightScheme::log, 40.0f, 0.1f}.weight(0.0f)), 1.0f);
  EXPECT_EQ(EntryWeights{}.weight(7.0f), 1.0f);
  EXPECT_FALSE(EntryWeights{}.is_on());
}

TEST(EntryWeights, ThatNoFloatHoldsAreInfinite) {
  const float most = std::numeric_limits<float>::max();
  EXPECT_TRUE(std::isinf(EntryWeights{EntryWeightScheme::linear, 2.0f}.weight(most)));
  EXPECT_TRUE(std::isfinite(EntryWeights{EntryWeightScheme::log, 2.0f}.weight(most)));
}

}  // namespace
}  // namespace norn
