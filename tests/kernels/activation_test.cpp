// SPDX-License-Identifier: Apache-2.0
// Activations as values: names, slopes against central differences, NaN.
#include "kernels/activation.h"

#include "kernels/named_variant.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace norn {
namespace {

/// Calls body(f) for every activation with its default parameters.
template <typename Body>
void for_each_activation(const Body& body) {
  for (const std::string& name : names_of<Activation>()) {
    SCOPED_TRACE(name);
    std::visit(body, *find_named<Activation>(name));
  }
}

TEST(Activation, NamesAndAliasesAreUniqueWithoutRegardToCase) {
  std::set<std::string> seen;
  for (std::string name : names_of<Activation>(true)) {
    for (char& letter : name) letter = char(std::tolower(letter));
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  EXPECT_EQ(names_of<Activation>().size(), std::variant_size_v<Activation>);
}

TEST(Activation, IsFoundByNameAndAliasInAnyCase) {
  EXPECT_EQ(name_of(*find_named<Activation>("sigMOID")), "Sigmoid");
  EXPECT_EQ(name_of(*find_named<Activation>("RectifiedLinear")), "Relu");
  EXPECT_EQ(name_of(*find_named<Activation>("leakyrelu")), "LRelu");
  EXPECT_FALSE(find_named<Activation>("Tahn"));
}

TEST(Activation, SlopeEqualsTheCentralDifference) {
  for_each_activation([](const auto& f) {
    constexpr double h = 1e-6;
    for (double z = -6.05; z < 6; z += 0.1) {
      const double difference = (f.value(z + h) - f.value(z - h)) / (2 * h);
      EXPECT_NEAR(slope_at(f, z, f.value(z)), difference, 1e-8) << "z = " << z;
    }
  });
}

TEST(Activation, FloatAgreesWithDouble) {
  for_each_activation([](const auto& f) {
    for (double z = -30.05; z < 30; z += 0.1) {
      const double value = f.value(double(float(z)));
      // GELU's values below 0 are small differences.
      EXPECT_NEAR(f.value(float(z)), value, 4e-7 * std::max(0.2, std::abs(value))) << z;
      EXPECT_NEAR(slope_at(f, float(z), float(value)), slope_at(f, double(float(z)), value), 3e-7)
          << z;
    }
  });
}

TEST(Activation, NanIsHandedOn) {
  for_each_activation([](const auto& f) {
    EXPECT_TRUE(std::isnan(f.value(std::numeric_limits<float>::quiet_NaN())));
    EXPECT_TRUE(std::isnan(f.value(std::numeric_limits<double>::quiet_NaN())));
  });
}

TEST(Activation, ValuesAtKnownPoints) {
  EXPECT_DOUBLE_EQ(Sigmoid{}.value(0.0), 0.5);
  EXPECT_DOUBLE_EQ(Relu{}.value(-2.0), 0.0);
  EXPECT_DOUBLE_EQ(LeakyRelu{.relu_slope = 0.25f}.value(-2.0), -0.5);
  EXPECT_DOUBLE_EQ(Elu{.alpha = 2.0f}.value(-1.0), 2.0 * (std::exp(-1.0) - 1.0));
  EXPECT_NEAR(Selu{}.value(-1.0), 1.0507009873554805 * 1.6732632423543772 * (std::exp(-1.0) - 1.0),
              1e-7);
  EXPECT_DOUBLE_EQ(SoftPlus{}.value(0.0), std::log(2.0));
  EXPECT_DOUBLE_EQ(SoftSign{}.value(-3.0), -0.75);
  EXPECT_DOUBLE_EQ(Swish{}.value(1.0), 1.0 / (1.0 + std::exp(-1.0)));
  EXPECT_DOUBLE_EQ(Swish{.beta = 0.0f}.value(-3.0), -1.5);
  EXPECT_NEAR(Swish{.beta = 2.0f}.value(-3.0), -3.0 / (1.0 + std::exp(6.0)), 1e-15);
  EXPECT_NEAR(Gelu{}.value(1.0), 0.841344746068542948585, 1e-15);
  EXPECT_NEAR(Gelu{}.value(-2.0), -0.045500263896358414, 1e-15);
}

}  // namespace
}  // namespace norn
