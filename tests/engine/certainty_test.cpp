// SPDX-License-Identifier: Apache-2.0
// Intervals and tests over examples, against plain loops with the same draws, and against what they
// promise on values that are drawn. tests/python compares them with NumPy, tests/integration as
// the program prints them.
#include "src/engine/predict/certainty.h"

#include "norn/base/error.h"
#include "src/base/philox.h"
#include "src/engine/predict/example_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Certainty : public ::testing::Test {
 protected:
  Certainty() { RecordProperty("seed", std::to_string(seed_)); }
  void TearDown() override {
    if (HasFailure()) std::printf("seed %u\n", seed_);
  }
  // As metrics are: many zeros, few different values.
  ExampleColumn metric(Index examples, double mean = 0.3) {
    std::uniform_real_distribution<double> uniform;
    ExampleColumn column;
    for (Index i = 0; i < examples; ++i)
      column.push_back(uniform(random_) < mean ? 1.0 / double(1 + int(3 * uniform(random_))) : 0.0);
    return column;
  }
  Index draw(Index least, Index most) {
    return std::uniform_int_distribution<Index>(least, most)(random_);
  }

  unsigned seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
};

std::vector<double> counted(const ExampleColumn& column) {
  std::vector<double> found;
  std::ranges::copy_if(column, std::back_inserter(found), [](double x) { return !std::isnan(x); });
  return found;
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double place = share * double(values.size() - 1);
  const auto low = std::size_t(std::floor(place));
  const double next = values[std::min(low + 1, values.size() - 1)];
  return values[low] + (next - values[low]) * (place - double(low));
}

TEST_F(Certainty, IntervalsAreThoseOfPlainLoopsWithTheSameDraws) {
  const Index examples = draw(2, 300);
  std::vector<ExampleColumn> columns = {metric(examples), metric(examples), metric(examples)};
  for (Index i = 2; i < examples; ++i)
    if (draw(0, 4) == 0)
      for (ExampleColumn& column : columns) column[std::size_t(i)] = kNone;
  const Resampling resampling{0.9, draw(1, 90), random_(), 1 << 15};
  const std::vector<Interval> found = mean_intervals(columns, resampling);
  ASSERT_EQ(found.size(), columns.size());
  const Philox stream = Philox::stream(resampling.seed, RandomPurpose::resampling, 0);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::vector<double> values = counted(columns[c]);
    std::vector<double> means;
    for (Index round = 0; round < resampling.resamples; ++round) {
      double sum = 0.0;
      for (std::uint64_t i = 0; i < values.size(); ++i) {
        const std::uint64_t word = stream.block(i / 4, std::uint64_t(round)).word[i % 4];
        sum += values[std::size_t(double(word) / 0x1p32 * double(values.size()))];
      }
      means.push_back(sum / double(values.size()));
    }
    EXPECT_NEAR(found[c].low, quantile(means, 0.05), 1e-12);
    EXPECT_NEAR(found[c].high, quantile(means, 0.95), 1e-12);
  }
}

TEST_F(Certainty, PIsThatOfPlainLoopsWithTheSameSigns) {
  const Index examples = draw(2, 400);
  const ExampleColumn a = metric(examples), b = metric(examples, 0.35);
  const Resampling resampling{0.95, draw(1, 300), random_(), 1 << 15};
  const Difference found = paired_differences({{a}}, {{b}}, resampling).at(0);
  const Philox stream = Philox::stream(resampling.seed, RandomPurpose::resampling, 1);
  double as_large = 1.0;
  double observed = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) observed += b[i] - a[i];
  for (Index round = 0; round < resampling.resamples; ++round) {
    double sum = 0.0;
    for (std::uint64_t i = 0; i < a.size(); ++i) {
      const std::uint32_t word = stream.block(i / 128, std::uint64_t(round)).word[i % 128 / 32];
      sum += ((word >> (i % 32)) & 1u) != 0 ? a[i] - b[i] : b[i] - a[i];
    }
    as_large += std::abs(sum) >= std::abs(observed) - 1e-9;
  }
  EXPECT_DOUBLE_EQ(found.p, as_large / double(resampling.resamples + 1));
  EXPECT_NEAR(found.b - found.a, observed / double(examples), 1e-12);
}

// Of 10,000 intervals of 95 %, by 1,000 resamples of 300 examples, 94.5 % hold the true mean: the
// bounds are seven standard deviations away.
TEST_F(Certainty, IntervalsHoldTheTrueMeanAsOftenAsTheySay) {
  int inside = 0;
  std::normal_distribution<double> normal(0.2, 0.7);
  for (int i = 0; i < 500; ++i) {
    std::vector<ExampleColumn> columns(20, ExampleColumn(300));
    for (ExampleColumn& column : columns)
      std::ranges::generate(column, [&] { return normal(random_); });
    for (const Interval& found : mean_intervals(columns, {0.95, 1000, random_(), 1 << 15}))
      inside += found.low <= 0.2 && 0.2 <= found.high;
  }
  EXPECT_GT(inside, 9300);
  EXPECT_LT(inside, 9700);
}

// Groups of examples instead of examples: as wide, to six standard deviations.
TEST_F(Certainty, IntervalsOfGroupsAreAsWide) {
  const ExampleColumn column = metric(5000 + draw(0, 500));
  const auto width = [&](Index groups) {
    const Interval found = mean_intervals({{column}}, {0.9, 3000, random_(), groups}).at(0);
    return found.high - found.low;
  };
  EXPECT_NEAR(width(1024) / width(1 << 15), 1.0, 0.2);
}

// Uniform: of 1,000 p none of ten tenths is as far from a hundred as chance brings once in 10^7.
TEST_F(Certainty, PIsUniformWhereThereIsNoDifference) {
  std::vector<int> tenths(10);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 1000; ++i) {
    ExampleColumn a(60), b(60);
    for (std::size_t e = 0; e < a.size(); ++e) {
      const double common = normal(random_);
      a[e] = common + normal(random_);
      b[e] = common + normal(random_);
    }
    const double p = paired_differences({{a}}, {{b}}, {0.95, 499, random_(), 1 << 15}).at(0).p;
    ASSERT_GT(p, 0.0);
    ASSERT_LE(p, 1.0);
    ++tenths[std::size_t(std::min(9.0, std::ceil(p * 10.0) - 1.0))];
  }
  EXPECT_THAT(tenths, ::testing::Each(::testing::AllOf(::testing::Gt(45), ::testing::Lt(165))));
}

TEST_F(Certainty, APlantedDifferenceIsFound) {
  const Index examples = draw(400, 900);
  const ExampleColumn a = metric(examples);
  ExampleColumn b = a;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] += 0.02 + 0.1 * double(draw(0, 10)) / 10.0;
  const Difference found = paired_differences({{a}}, {{b}}, {0.95, 999, random_(), 1 << 15}).at(0);
  EXPECT_DOUBLE_EQ(found.p, 0.001);
  EXPECT_GT(found.interval.low, 0.0);
  const Difference turned = paired_differences({{b}}, {{a}}, {0.95, 999, random_(), 1 << 15}).at(0);
  EXPECT_DOUBLE_EQ(turned.p, 0.001);
  EXPECT_LT(turned.interval.high, 0.0);
}

TEST_F(Certainty, TheSameModelDoesNotDiffer) {
  for (const Index examples : {Index(2), draw(3, 500)}) {
    const ExampleColumn a = metric(examples);
    const Difference found = paired_differences({{a}}, {{a}}, {0.95, 50, random_(), 100}).at(0);
    EXPECT_EQ(found.p, 1.0);
    EXPECT_EQ(found.interval.low, 0.0);
    EXPECT_EQ(found.interval.high, 0.0);
    EXPECT_EQ(found.a, found.b);
  }
}

// Two differences of a third, which their roundings tell apart: in half of the exchanges both have
// the same sign, and as much as was seen.
TEST_F(Certainty, EqualDifferencesTie) {
  const Difference found =
      paired_differences({{{0.0, 1.0 / 3}}}, {{{1.0 / 3, 2.0 / 3}}}, {0.95, 4000, random_(), 9})
          .at(0);
  EXPECT_NEAR(found.p, 0.5, 0.05);  // six standard deviations
}

TEST_F(Certainty, OneExampleSaysNothing) {
  const std::vector<ExampleColumn> one = {{kNone, 0.5, kNone}}, other = {{kNone, 0.75, kNone}};
  const Interval found = mean_intervals(one, {}).at(0);
  EXPECT_TRUE(std::isnan(found.low) && std::isnan(found.high));
  const Difference difference = paired_differences(one, other, {}).at(0);
  EXPECT_TRUE(std::isnan(difference.interval.low));
  EXPECT_EQ(difference.p, 1.0);
  EXPECT_EQ(difference.a, 0.5);
  EXPECT_EQ(difference.b, 0.75);
  const Difference none = paired_differences({{{kNone}}}, {{{kNone}}}, {}).at(0);
  EXPECT_TRUE(std::isnan(none.a) && none.p == 1.0);
  EXPECT_TRUE(mean_intervals({}, {}).empty());
}

TEST_F(Certainty, AnExampleOfOneModelAloneIsNothingToTheOther) {
  const Difference found =
      paired_differences({{{kNone, 0.5, 1.0, kNone}}}, {{{1.0, kNone, 0.0, kNone}}}, {}).at(0);
  EXPECT_DOUBLE_EQ(found.a, 0.5);
  EXPECT_DOUBLE_EQ(found.b, 1.0 / 3.0);
}

TEST_F(Certainty, OtherExamplesAreRefused) {
  EXPECT_THROW(mean_intervals({{{1.0, 2.0}, {1.0}}}, {}), UsageError);
  EXPECT_THROW(mean_intervals({{{1.0, 2.0}, {1.0, kNone}}}, {}), UsageError);
  EXPECT_THROW(mean_intervals({{{kNone, 2.0}, {1.0, 3.0}}}, {}), UsageError);
  EXPECT_THROW(paired_differences({{{1.0, 2.0}}}, {{{1.0}}}, {}), UsageError);
  EXPECT_THROW(paired_differences({{{1.0}}}, {}, {}), UsageError);
}

TEST_F(Certainty, DependsOnTheSeedAlone) {
  const ExampleColumn column = metric(200);
  const auto found = [&](std::uint64_t seed) {
    return mean_intervals({{column}}, {0.95, 100, seed, 1 << 15}).at(0);
  };
  const std::uint64_t seed = random_();
  EXPECT_EQ(found(seed).low, found(seed).low);
  EXPECT_NE(found(seed).low, found(seed + 1).low);
}

TEST(ExampleValues, HasAColumnOfEachMean) {
  ExampleValues values;
  for (const Index example : {1, 3})
    for (const Index k : {20, 5}) {
      MetricsAtK of{k, {}};
      of.values.fill(0.25 * double(example));
      for (std::size_t i = 0; i < kMetrics.size(); ++i)
        if (kMetrics[i].name == "coverage" || kMetrics[i].use != MetricUse::always)
          of.values[i] = kNone;
      values.add(example, of);
    }
  const ExampleValues::Columns all = values.take(5);
  ASSERT_EQ(all.names.size(), 2 * (metric_names().size() - 1));
  EXPECT_EQ(all.names.front().name, "recall");
  EXPECT_EQ(all.names.front().title, "Recall");
  EXPECT_EQ(all.names.front().k, 5);
  EXPECT_EQ(all.names.back().k, 20);
  for (const ExampleColumn& column : all.values) {
    ASSERT_EQ(column.size(), 5u);
    EXPECT_EQ(column[1], 0.25);
    EXPECT_EQ(column[3], 0.75);
    EXPECT_TRUE(std::isnan(column[0]) && std::isnan(column[2]) && std::isnan(column[4]));
  }
}

}  // namespace
}  // namespace norn
