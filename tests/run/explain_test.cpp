// SPDX-License-Identifier: Apache-2.0
// Explanations of a program's own arrays, against recommendations of arrays without an entry.
#include "norn/run/recommend.h"
#include "tests/run/door.h"
#include "tests/support/message_of.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace norn::run {
namespace {

TEST_F(Door, ExplainsScoresByLeavingEntriesOut) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const TrainResult trained = train(options());
  const auto examples = Index(baskets_.begin.size()) - 1;
  std::vector<Index> units(static_cast<std::size_t>(examples));
  for (Index& unit : units) unit = random() % 9 == 0 ? -1 : Index(random() % kWidth);
  ExplainOptions asked;
  asked.sets = {baskets_.set("films_input")};
  asked.units = units;
  asked.n = 100;
  std::vector<Index> done;
  asked.on_batch = [&](Index so_far, Index all) {
    done.push_back(so_far);
    EXPECT_EQ(all, examples);
  };
  const std::vector<Explanation> found = explain(*trained.model, asked);
  ASSERT_EQ(Index(found.size()), examples);
  EXPECT_EQ(done.back(), examples);

  const auto example = std::size_t(random() % std::uint64_t(examples));
  const auto first = std::size_t(baskets_.begin[example]);
  const auto count = std::size_t(baskets_.begin[example + 1]) - first;
  if (units[example] < 0) {
    EXPECT_TRUE(std::isnan(found[example].score));
    EXPECT_TRUE(found[example].effects.empty());
    return;
  }
  ASSERT_EQ(found[example].effects.size(), count);
  for (const EntryEffect& entry : found[example].effects) {
    std::vector<Column> left;
    for (std::size_t i = first; i < first + count; ++i)
      if (baskets_.columns[i] != entry.unit) left.push_back(baskets_.columns[i]);
    ASSERT_EQ(left.size(), count - 1);
    const std::vector<RowOffset> begin = {0, RowOffset(left.size())};
    RecommendOptions known;
    known.k = kWidth;
    known.sets = {{.name = "films_input", .width = kWidth, .row_begin = begin, .columns = left}};
    const Recommendations scored = recommend(*trained.model, known);
    const auto at = std::ranges::find(scored.units, units[example]) - scored.units.begin();
    EXPECT_EQ(entry.effect, found[example].score - scored.scores[std::size_t(at)]);
  }
}

TEST_F(Door, RefusesWhatCannotBeExplained) {
  const TrainResult trained = train(options());
  std::vector<Index> units(203, 3);
  ExplainOptions asked;
  asked.sets = {baskets_.set("films_input")};
  asked.units = units;
  const auto refusal = [&](const ExplainOptions& given) {
    return message_of<UsageError>([&] { explain(*trained.model, given); });
  };
  ExplainOptions wrong = asked;
  wrong.n = 0;
  EXPECT_EQ(refusal(wrong), "`n` 0 is out of range: it must be at least 1");
  wrong = asked;
  wrong.layer = "Hidden";
  EXPECT_EQ(refusal(wrong), "`layer`: \"Hidden\" is no output layer: it has no scores to explain");
  wrong = asked;
  wrong.units = std::span(units).first(100);
  EXPECT_EQ(refusal(wrong), "`units`: has 100 units for 203 examples; give as many for each");
  for (const Index unit : {kWidth, Index(-2)}) {
    units[17] = unit;
    EXPECT_EQ(refusal(asked),
              fmt::format(
                  "`units`: example 17: unit {} is out of range, expected 0 to 60, or -1 for none",
                  unit));
  }
}

}  // namespace
}  // namespace norn::run
