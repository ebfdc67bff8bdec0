// SPDX-License-Identifier: Apache-2.0
// Losses as values: names, slopes against central differences, closed forms, NaN.
#include "kernels/loss.h"

#include "kernels/named_variant.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace norn {
namespace {

/// Calls body(loss) for every loss with its default parameters.
template <typename Body>
void for_each_loss(const Body& body) {
  for (const std::string& name : names_of<Loss>()) {
    SCOPED_TRACE(name);
    std::visit(body, *find_named<Loss>(name));
  }
}

TEST(Loss, NamesAndAliasesAreUniqueWithoutRegardToCase) {
  std::set<std::string> seen;
  for (std::string name : names_of<Loss>(true)) {
    for (char& letter : name) letter = char(std::tolower(letter));
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  EXPECT_EQ(name_of(*find_named<Loss>("smce")), "ScaledMarginalCrossEntropy");
  EXPECT_FALSE(find_named<Loss>("CrossEntropie"));
}

TEST(Loss, SlopeEqualsTheCentralDifferenceOfTheCost) {
  for_each_loss([](const auto& loss) {
    constexpr double h = 1e-7;
    for (double t : {0.0, 1.0, -1.0, 0.37, 3.0})
      for (double y = -2.013; y < 3; y += 0.0711) {
        const double rising = (loss.cost(y + h, t) - loss.cost(y, t)) / h;
        const double falling = (loss.cost(y, t) - loss.cost(y - h, t)) / h;
        if (std::abs(rising - falling) > 1e-3 * (1 + std::abs(rising))) continue;  // a kink
        EXPECT_NEAR(loss.slope(y, t), (rising + falling) / 2, 1e-5 * (1 + std::abs(rising)))
            << "y = " << y << ", t = " << t;
      }
  });
}

TEST(Loss, NanIsHandedOn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for_each_loss([&](const auto& loss) {
    for (double t : {0.0, 1.0}) {
      EXPECT_TRUE(std::isnan(loss.cost(nan, t))) << t;
      EXPECT_TRUE(std::isnan(element_cost(Sigmoid{}, loss, nan, t).cost)) << t;
      EXPECT_TRUE(std::isnan(element_cost(Tanh{}, loss, nan, t).cost)) << t;
    }
  });
}

TEST(Loss, ClosedFormsForSigmoidEqualTheComposition) {
  for_each_loss([](const auto& loss) {
    for (double t : {0.0, 1.0, 0.37, 3.0})
      for (double z = -8.03; z < 8; z += 0.1) {
        const Sigmoid f;
        const double y = f.value(z);
        const ElementCost<double> closed = element_cost(f, loss, z, t);
        EXPECT_NEAR(closed.cost, loss.cost(y, t), 1e-9 * (1 + std::abs(closed.cost)))
            << "z = " << z << ", t = " << t;
        EXPECT_NEAR(closed.delta, loss.slope(y, t) * slope_at(f, z, y), 1e-9) << z << ' ' << t;
      }
  });
}

TEST(Loss, ClosedFormsStayExactWhereTheSigmoidRounds) {
  // y rounds to 1 in float at z = 20 and above.
  const ScaledMarginalCrossEntropy open{.one_target = 1.0f, .zero_target = 0.0f};
  for (float z : {20.0f, 40.0f, 80.0f}) {
    EXPECT_FLOAT_EQ(element_cost(Sigmoid{}, CrossEntropy{}, z, 0.0f).cost, z);
    EXPECT_FLOAT_EQ(element_cost(Sigmoid{}, open, z, 0.0f).cost, z);
    EXPECT_FLOAT_EQ(element_cost(Sigmoid{}, open, -z, 1.0f).cost, z);
    EXPECT_FLOAT_EQ(element_cost(Sigmoid{}, open, -z, 0.0f).delta, std::exp(-z));
  }
}

TEST(Loss, MarginsLetGoAndOnlyExactTargetsCount) {
  const ScaledMarginalCrossEntropy smce{
      .one_target = 0.8f, .zero_target = 0.2f, .one_scale = 2.0f, .zero_scale = 3.0f};
  EXPECT_EQ(smce.cost(0.85, 1.0), 0.0);
  EXPECT_NEAR(smce.cost(0.5, 1.0), 2 * std::log(2.0), 1e-12);
  EXPECT_EQ(smce.cost(0.15, 0.0), 0.0);
  EXPECT_NEAR(smce.cost(0.5, 0.0), 3 * std::log(2.0), 1e-12);
  EXPECT_EQ(smce.cost(0.5, 0.5), 0.0);
  EXPECT_EQ(smce.stored_target(7.0), 1.0);
  const DataScaledMarginalCrossEntropy dsmce{.one_target = 0.8f, .one_scale = 2.0f};
  EXPECT_NEAR(dsmce.cost(0.5, 7.0), 14 * std::log(2.0), 1e-12);
}

TEST(Loss, HuberIsSquaredNearTheTargetAndLinearBeyond) {
  const Huber loss{.delta = 2.0f};
  EXPECT_EQ(loss.cost(4.0, 3.0), 0.5);
  EXPECT_EQ(loss.cost(5.0, 3.0), 2.0);
  EXPECT_EQ(loss.cost(-7.0, 3.0), 18.0);
  EXPECT_EQ(loss.slope(4.0, 3.0), 1.0);
  EXPECT_EQ(loss.slope(103.0, 3.0), 2.0);
  EXPECT_EQ(loss.slope(-7.0, 3.0), -2.0);
  EXPECT_TRUE(std::isnan(loss.slope(std::nan(""), 3.0)));
}

TEST(Loss, HingesAtKnownPoints) {
  EXPECT_EQ(SquaredHinge{}.cost(0.5, 1.0), 0.125);
  EXPECT_EQ(SquaredHinge{}.cost(1.5, 1.0), 0.0);
  EXPECT_EQ(SquaredHinge{}.cost(-1.0, 0.0), 0.0);
  EXPECT_EQ(SquaredHinge{}.cost(3.0, -1.0), 2.0);
  EXPECT_EQ(Hinge{}.cost(0.5, -1.0), 1.5);
  EXPECT_EQ(Hinge{}.cost(2.0, 1.0), 0.0);
}

}  // namespace
}  // namespace norn
