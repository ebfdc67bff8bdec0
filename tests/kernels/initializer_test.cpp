// SPDX-License-Identifier: Apache-2.0
// Initial weights: their distributions, and that every rank draws its part of the same matrix.

#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "tests/kernels/device.h"
#include "tests/kernels/executions.h"

#include <map>

namespace norn {
namespace {

using samples::PaddedMatrix;

constexpr Index kSources = 300, kDestinations = 500;
constexpr float kScale = 0.4f;

/// What a scheme should draw for 300 inputs and 500 outputs with Scale 0.4.
struct Distribution {
  double low, high, mean, deviation;
};

Distribution uniform_in(double low, double high) {
  return {low, high, (low + high) / 2, (high - low) / std::sqrt(12.0)};
}
Distribution normal(double deviation) {
  return {-7 * deviation, 7 * deviation, 0, deviation};
}

const std::map<std::string, Distribution>& distributions() {
  const double glorot = 0.4 * std::sqrt(6.0 / 800), caffe = 0.4 * std::sqrt(3.0 / 500);
  static const std::map<std::string, Distribution> expected{
      {"Xavier", uniform_in(-glorot, glorot)},
      {"CaffeXavier", uniform_in(-caffe, caffe)},
      {"Gaussian", normal(0.4)},
      {"Uniform", uniform_in(-0.4, 0.4)},
      {"UnitBall", uniform_in(0, 0.4)},
      {"Constant", {0.4, 0.4, 0.4, 0}},
      {"SELU", normal(1 / std::sqrt(300.0))}};
  return expected;
}

Initializer named(const std::string& name) {
  Initializer initializer = *find_named<Initializer>(name);
  std::visit([](auto& scheme) { scheme.scale = kScale; }, initializer);
  return initializer;
}

// Filters: as many weights as the matrix says, from and to other numbers of units.
TEST(WeightPlaceTest, FansAreSaidOrThoseOfTheMatrix) {
  WeightPlace place{.sources = 3, .destinations = 5};
  EXPECT_EQ(place.fans().in, 3.0);
  EXPECT_EQ(place.fans().out, 5.0);
  place.fan = {27.0, 90.0};
  Executor executor(1);
  const auto kernels = samples::make_update(executor);
  PaddedMatrix<float> w(5, 3), expected(5, 3);
  kernels->initialise(CaffeXavier{}, Philox::stream(7, RandomPurpose::weights), place, w.view());
  kernels->initialise(UniformInit{float(std::sqrt(3.0 / 90.0))},
                      Philox::stream(7, RandomPurpose::weights), place, expected.view());
  for (Index r = 0; r < 5; ++r)
    for (Index c = 0; c < 3; ++c) EXPECT_NEAR(w(r, c), expected(r, c), 1e-7);
}

WeightPlace whole_by_source() {
  return {.by_destination = false, .sources = kSources, .destinations = kDestinations};
}

class InitializerTest : public samples::RandomTest {
 protected:
  Philox stream(std::uint32_t member = 0) const {
    return Philox::stream(seed_, RandomPurpose::weights, member);
  }
};

TEST_F(InitializerTest, WeightsHaveTheRangeMeanAndDeviationOfTheirScheme) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  constexpr double n = double(kSources * kDestinations);
  for (const std::string& name : names_of<Initializer>()) {
    SCOPED_TRACE(name);
    PaddedMatrix<float> w(kSources, kDestinations);
    kernels->initialise(named(name), stream(), whole_by_source(), w.view());
    EXPECT_TRUE(w.padding_is_intact());
    const auto found = distributions().find(name);
    ASSERT_NE(found, distributions().end()) << "write down the distribution of " << name;
    const Distribution& expected = found->second;
    double sum = 0, squares = 0, low = 1e30, high = -1e30;
    for (Index r = 0; r < kSources; ++r)
      for (Index c = 0; c < kDestinations; ++c) {
        const double x = w(r, c);
        ASSERT_TRUE(std::isfinite(x));
        sum += x;
        squares += (x - expected.mean) * (x - expected.mean);
        low = std::min(low, x);
        high = std::max(high, x);
      }
    const double deviation = std::sqrt(squares / n);
    // Six standard errors: a right scheme fails once in 10^8 runs or more rarely.
    EXPECT_NEAR(sum / n, expected.mean, 6 * expected.deviation / std::sqrt(n) + 1e-7);
    EXPECT_NEAR(deviation, expected.deviation, 6 * expected.deviation / std::sqrt(2 * n) + 1e-7);
    EXPECT_GE(low, expected.low - 1e-7);
    EXPECT_LE(high, expected.high + 1e-7);
    if (expected.deviation > 0) {  // the range is used to its ends
      const double reach = name == "Gaussian" || name == "SELU"
                               ? 3.5 * expected.deviation
                               : 0.49 * (expected.high - expected.low);
      EXPECT_GE(high - expected.mean, reach);
      EXPECT_GE(expected.mean - low, reach);
    }
  }
}

TEST_F(InitializerTest, RanksDrawTheirPartsOfOneMatrix) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  for (const std::string& name : names_of<Initializer>()) {
    SCOPED_TRACE(name);
    PaddedMatrix<float> whole(kSources, kDestinations), parts(kSources, kDestinations);
    kernels->initialise(named(name), stream(), whole_by_source(), whole.view());
    // By source, cut by destination; 129 and 1 are not multiples of anything.
    for (const auto& [first, count] :
         std::vector<std::pair<Index, Index>>{{0, 129}, {129, 1}, {130, 370}}) {
      WeightPlace place = whole_by_source();
      place.first_destination = first;
      kernels->initialise(named(name), stream(), place, parts.view().columns(first, count));
    }
    EXPECT_TRUE(whole.same_bits(parts));
    // The mirrored layout, cut both ways.
    for (const Index first : {0, 200})
      for (const Index first_source : {0, 77}) {
        PaddedMatrix<float> part(100, 123);
        const WeightPlace place{.by_destination = true,
                                .first_source = first_source,
                                .first_destination = first,
                                .sources = kSources,
                                .destinations = kDestinations};
        kernels->initialise(named(name), stream(), place, part.view());
        for (Index j = 0; j < 100; ++j)
          for (Index i = 0; i < 123; ++i)
            ASSERT_EQ(part(j, i), whole(first_source + i, first + j)) << i << ", " << j;
      }
  }
}

TEST_F(InitializerTest, MatricesOfOtherStreamsDiffer) {
  Executor executor(2);
  const auto kernels = samples::make_update(executor);
  PaddedMatrix<float> a(40, 50), b(40, 50);
  const WeightPlace place{.by_destination = true, .sources = 50, .destinations = 40};
  kernels->initialise(Xavier{}, stream(0), place, a.view());
  kernels->initialise(Xavier{}, stream(1), place, b.view());
  int equal = 0;
  for (Index r = 0; r < 40; ++r)
    for (Index c = 0; c < 50; ++c) equal += a(r, c) == b(r, c);
  EXPECT_LT(equal, 10);
}

TEST_F(InitializerTest, BitsDoNotDependOnLanes) {
  for (const std::string& name : names_of<Initializer>()) {
    SCOPED_TRACE(name);
    samples::expect_same_bits_however_run([&](Executor& executor) {
      PaddedMatrix<float> w(kSources, kDestinations);
      samples::make_update(executor)->initialise(named(name), stream(), whole_by_source(),
                                                 w.view());
      return samples::bits_of(w.view());
    });
  }
}

TEST_F(InitializerTest, PlacesOutsideTheMatrixAreRefused) {
  Executor executor(1);
  const auto kernels = samples::make_update(executor);
  PaddedMatrix<float> w(4, 5);
  const WeightPlace place{
      .by_destination = false, .first_source = 1, .sources = 4, .destinations = 5};
  EXPECT_THROW(kernels->initialise(Xavier{}, stream(), place, w.view()), ShapeError);
}

}  // namespace
}  // namespace norn
