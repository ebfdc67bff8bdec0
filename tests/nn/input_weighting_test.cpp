// SPDX-License-Identifier: Apache-2.0
// Weights of features against numbers that were worked out by hand, or by scikit-learn's formula.
#include "src/nn/input_weighting.h"

#include <cmath>

#include <gtest/gtest.h>

namespace norn {
namespace {

TEST(InputWeighting, OfInverseDocumentFrequencyIsScikitLearnsSmoothIdf) {
  const InverseDocumentFrequency idf;
  EXPECT_DOUBLE_EQ(idf.weight(6, 6), 1.0);  // every example has it
  EXPECT_NEAR(idf.weight(2, 6), 1.8472978603872037, 1e-15);
  EXPECT_NEAR(idf.weight(0, 6), 2.9459101490553132, 1e-15);
  EXPECT_NEAR((InverseDocumentFrequency{2.0f}.weight(2, 6)), 3.4125093849911408, 1e-14);
}

TEST(InputWeighting, OfInversePopularityIsAPowerOfTheShare) {
  EXPECT_DOUBLE_EQ(InversePopularity{}.weight(4, 100), 5.0);  // 25^0.5
  EXPECT_DOUBLE_EQ(InversePopularity{1.0f}.weight(4, 100), 25.0);
  EXPECT_DOUBLE_EQ(InversePopularity{0.25f}.weight(1, 10000), 10.0);
  EXPECT_DOUBLE_EQ(InversePopularity{0.25f}.weight(0, 10000), 10.0);  // as if one had it
  EXPECT_DOUBLE_EQ(InversePopularity{}.weight(100, 100), 1.0);
}

TEST(InputWeighting, OfNoneIsOne) {
  EXPECT_EQ(feature_weight(NoWeighting{}, 3, 100), 1.0);
  EXPECT_FALSE(weights_features(NoWeighting{}));
}

TEST(InputWeighting, FallsAsFeaturesBecomeCommoner) {
  for (const InputWeighting& weighting :
       {InputWeighting(InverseDocumentFrequency{}), InputWeighting(InversePopularity{})}) {
    EXPECT_TRUE(weights_features(weighting));
    double before = feature_weight(weighting, 1, 1'000'000'000);
    EXPECT_TRUE(std::isfinite(before));
    for (std::int64_t count = 10; count <= 1'000'000'000; count *= 10) {
      const double now = feature_weight(weighting, count, 1'000'000'000);
      EXPECT_LT(now, before);
      before = now;
    }
    EXPECT_NEAR(before, 1.0, 1e-12);
  }
}

}  // namespace
}  // namespace norn
