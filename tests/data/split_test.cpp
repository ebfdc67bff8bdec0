// SPDX-License-Identifier: Apache-2.0
// Training, validation and test parts.
#include "data/split.h"

#include "support.h"

#include <array>
#include <numeric>

#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::HasSubstr;

SplitRule ratio(std::vector<double> ratios, SplitRule::Unit unit, std::uint64_t seed) {
  return {SplitRule::Kind::ratio, unit, std::move(ratios), seed};
}

TEST(Split, SharesOutEveryEntryOnceAndKeepsOneForTraining) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  const Split split(ratio({0.6, 0.1, 0.3}, SplitRule::Unit::entry, seed));
  std::array<double, 3> total = {};
  double all = 0;
  for (std::uint64_t example = 0; example < 4000; ++example) {
    const Index n = Index(example % 9);
    const std::array<Index, 3> counts = split.entry_counts(example, n);
    std::vector<std::uint8_t> parts;
    split.entry_parts(example, n, parts);
    ASSERT_EQ(Index(parts.size()), n);
    for (std::uint8_t part = 0; part < 3; ++part) {
      ASSERT_GE(counts[part], 0);
      ASSERT_EQ(std::count(parts.begin(), parts.end(), part), counts[part]);
      if (n >= 4) total[part] += double(counts[part]);
    }
    ASSERT_TRUE(n == 0 || counts[0] >= 1);
    if (n >= 4) all += double(n);
  }
  EXPECT_NEAR(total[0] / all, 0.6, 0.01);
  EXPECT_NEAR(total[1] / all, 0.1, 0.01);
  EXPECT_NEAR(total[2] / all, 0.3, 0.01);
}

TEST(Split, SharesOutByTimeWithTheBordersThemselvesLater) {
  const Split split({SplitRule::Kind::time, SplitRule::Unit::entry, {}, 1, {-3, 10}});
  std::vector<std::uint8_t> parts;
  split.time_parts(std::vector<Microseconds>{10, -4, 9, -3, 11, -100}, parts);
  EXPECT_EQ(parts, (std::vector<std::uint8_t>{2, 0, 1, 1, 2, 0}));
  EXPECT_EQ(split.parts(), 3);
  split.time_parts({}, parts);
  EXPECT_TRUE(parts.empty());
  const Split last({SplitRule::Kind::leave_last_out, SplitRule::Unit::entry, {}, 1});
  last.time_parts(std::vector<Microseconds>{3, 7, 7, 1}, parts);
  EXPECT_EQ(parts, (std::vector<std::uint8_t>{0, 0, 1, 0}));
  last.time_parts(std::vector<Microseconds>{3}, parts);
  EXPECT_EQ(parts, (std::vector<std::uint8_t>{0}));
}

TEST(Split, DependsOnTheSeedAndOnNothingElse) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  const Split a(ratio({1, 1}, SplitRule::Unit::entry, seed)),
      b(ratio({1, 1}, SplitRule::Unit::entry, seed)),
      other(ratio({1, 1}, SplitRule::Unit::entry, seed + 1u));
  std::vector<std::uint8_t> parts, same, different, next;
  a.entry_parts(5, 100, parts);
  b.entry_parts(5, 100, same);
  other.entry_parts(5, 100, different);
  a.entry_parts(6, 100, next);
  EXPECT_EQ(parts, same);
  EXPECT_NE(parts, different);
  EXPECT_NE(parts, next);
}

TEST(Split, APairStaysInItsPartWhateverStandsBesideIt) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  const Split split(ratio({0.7, 0.1, 0.2}, SplitRule::Unit::pair, seed));
  EXPECT_TRUE(split.by_pair());
  std::array<double, 3> total = {};
  double all = 0, moved = 0;
  for (int example = 0; example < 3000; ++example) {
    const std::string label = "example " + std::to_string(example);
    std::vector<Column> features;
    for (Column f = 0; f < Column(1 + example % 12); ++f)
      features.push_back(f * 31 + Column(example));
    std::vector<std::uint8_t> parts, later;
    split.pair_parts(label, features, parts);
    ASSERT_EQ(parts.size(), features.size());
    ASSERT_NE(std::ranges::find(parts, 0), parts.end());
    for (const std::uint8_t part : parts) total[part] += features.size() >= 6;
    all += features.size() >= 6 ? double(features.size()) : 0.0;
    // New entries before and behind them: what moves was kept for training where there was nothing.
    std::vector<Column> grown = features;
    grown.insert(grown.begin(), 7'000'001);
    grown.push_back(7'000'002);
    split.pair_parts(label, grown, later);
    for (std::size_t k = 0; k < parts.size(); ++k)
      moved += features.size() >= 6 && parts[k] != later[k + 1];
  }
  EXPECT_NEAR(total[0] / all, 0.7, 0.02);
  EXPECT_NEAR(total[1] / all, 0.1, 0.02);
  EXPECT_NEAR(total[2] / all, 0.2, 0.02);
  EXPECT_LT(moved / all, 0.001);
  EXPECT_THROW(Split({SplitRule::Kind::leave_one_out, SplitRule::Unit::pair, {}, seed}),
               UsageError);
}

TEST(Split, LeaveOneOutLeavesExactlyOneAnywhereInTheRow) {
  const Split split({SplitRule::Kind::leave_one_out, SplitRule::Unit::entry, {}, fresh_seed()});
  std::array<int, 5> left_out = {};
  for (std::uint64_t example = 0; example < 5000; ++example) {
    std::vector<std::uint8_t> parts;
    split.entry_parts(example, 5, parts);
    ASSERT_EQ(std::count(parts.begin(), parts.end(), 1), 1);
    ++left_out[std::size_t(std::find(parts.begin(), parts.end(), 1) - parts.begin())];
  }
  for (const int count : left_out) EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  EXPECT_EQ(split.entry_counts(0, 1), (std::array<Index, 3>{1, 0, 0}));
  EXPECT_EQ(split.entry_counts(0, 0), (std::array<Index, 3>{0, 0, 0}));
}

TEST(Split, ExamplesGetExactSharesInRandomOrder) {
  const Split split(ratio({8, 1, 1}, SplitRule::Unit::example, fresh_seed()));
  const std::vector<std::uint8_t> parts = split.example_parts(1000);
  EXPECT_EQ(std::count(parts.begin(), parts.end(), 0), 800);
  EXPECT_EQ(std::count(parts.begin(), parts.end(), 1), 100);
  EXPECT_EQ(std::count(parts.begin(), parts.end(), 2), 100);
  EXPECT_FALSE(std::is_sorted(parts.begin(), parts.end()));
  EXPECT_EQ(split.entry_counts(3, 9), (std::array<Index, 3>{9, 0, 0}));
}

TEST(Split, HoldsBackExactlyItsShareOfItemsAnywhere) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  const Split split({SplitRule::Kind::new_items, SplitRule::Unit::entry, {0.3}, seed});
  for (Index width = 4; width < 400; ++width) {
    const std::vector<std::uint8_t> parts = split.item_parts(width);
    ASSERT_EQ(Index(parts.size()), width);
    ASSERT_EQ(std::ranges::count(parts, 1), std::llround(0.3 * double(width)));
    ASSERT_EQ(std::ranges::count(parts, 0) + std::ranges::count(parts, 1), width);
    ASSERT_EQ(parts, split.item_parts(width));
  }
  Index first = 0;
  for (std::uint64_t other = 0; other < 400; ++other)
    first += Split({SplitRule::Kind::new_items, SplitRule::Unit::entry, {0.3}, seed + other})
                 .item_parts(10)
                 .front();
  EXPECT_GT(first, 60);  // of 400
  EXPECT_LT(first, 190);
  for (const Index width : {0, 1}) EXPECT_THROW(split.item_parts(width), UsageError) << width;
}

TEST(Split, RefusesSharesThatMakeNoSense) {
  const auto error = [](std::vector<double> ratios) {
    return message_of<UsageError>([&] { Split(ratio(ratios, SplitRule::Unit::entry, 1)); });
  };
  EXPECT_THAT(error({1}), HasSubstr("`split` ratio:1: expected two shares"));
  EXPECT_THAT(error({0.8, 0.1, 0.05, 0.05}), HasSubstr("expected two shares"));
  EXPECT_THAT(error({1, 0}), HasSubstr("each above 0"));
  EXPECT_THAT(error({1, -0.5}), HasSubstr("each above 0"));
  EXPECT_THAT(message_of<UsageError>([] {
                Split({SplitRule::Kind::leave_one_out, SplitRule::Unit::example, {}, 1});
              }),
              HasSubstr("a leave-one-out split is by entry"));
}

}  // namespace
}  // namespace norn
