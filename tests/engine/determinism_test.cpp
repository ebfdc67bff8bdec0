// SPDX-License-Identifier: Apache-2.0
// A run's bits depend on neither threads nor ranks, and the second run has those of the first.
#include "tests/support/recipes.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace norn::test {
namespace {

constexpr std::int64_t kSteps = 22;  // four epochs of five batches, and a part of the fifth

class Determinism : public testing::TestWithParam<int> {
 protected:
  const Recipe recipe_ = all_recipes().at(std::size_t(GetParam()));
  const Outcome alone_ = run(recipe_, kSteps, 1, 1);
};

TEST_P(Determinism, OfTwoRuns) {
  EXPECT_TRUE(same_bits(alone_, run(recipe_, kSteps, 1, 1)));
}

TEST_P(Determinism, OfAnyNumberOfThreads) {
  for (int threads : {2, 7}) {
    SCOPED_TRACE(fmt::format("{} threads", threads));
    EXPECT_TRUE(same_bits(alone_, run(recipe_, kSteps, 1, threads)));
  }
}

TEST_P(Determinism, OfAnyNumberOfRanks) {
  for (int ranks : {2, 3, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    EXPECT_TRUE(same_bits(alone_, run(recipe_, kSteps, ranks, ranks == 2 ? 2 : 1)));
  }
}

TEST_P(Determinism, ButNotOfAnotherSeed) {
  Recipe other = recipe_;
  other.network.training.seed += 1;
  EXPECT_NE(alone_.state, run(other, kSteps, 1, 1).state);
}

// The run must go somewhere, or equal bits say little.
TEST_P(Determinism, OfRunsThatLearn) {
  ASSERT_EQ(alone_.costs.size(), std::size_t(kSteps));
  const auto epoch_cost = [&](std::ptrdiff_t epoch) {
    const auto first = alone_.costs.begin() + 5 * epoch;
    return std::accumulate(first, first + 5, 0.0);
  };
  EXPECT_LT(epoch_cost(3), epoch_cost(0));
}

std::string recipe_name(const testing::TestParamInfo<int>& info) {
  std::string name = all_recipes()[std::size_t(info.param)].name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Networks, Determinism, testing::Range(0, int(all_recipes().size())),
                         recipe_name);

TEST(DeterminismOfLongRuns, OfRanksAndThreads) {
  const Recipe recipe = all_recipes().front();
  const Outcome alone = run(recipe, 60, 1, 1);
  EXPECT_TRUE(same_bits(alone, run(recipe, 60, 3, 2)));
}

// As on a GPU: output layers are one block, hidden layers of 50 and more units are several.
TEST(DeterminismOfLongRuns, OfRanksThatShareHiddenLayersOnly) {
  for (const Recipe& each : all_recipes()) {
    SCOPED_TRACE(each.name);
    Recipe recipe = each;
    recipe.blocks.minimum_width = recipe.blocks.maximum_width = 4096;
    recipe.blocks.wanted_blocks = 4;
    recipe.blocks.minimum_hidden_width = recipe.blocks.hidden_multiple = 8;
    EXPECT_TRUE(same_bits(run(recipe, 6, 1, 1), run(recipe, 6, 3, 1)));
  }
}
TEST(DeterminismOfLongRuns, OfRanksThatComputeLossesInTheirProducts) {
  for (const LayerActivation& output :
       {LayerActivation(SoftMax{}), LayerActivation(Activation(Sigmoid{}))})
    for (const auto& [is_valued, weighs] : {std::pair(false, false), {true, false}, {true, true}}) {
      Recipe recipe = fused_recipe(output);
      recipe.targets.valued = recipe.targets.weighted = is_valued;
      if (weighs) weigh_entries(recipe);
      const Outcome alone = run(recipe, 10, 1, 1);
      for (const int ranks : {2, 3, 5})
        EXPECT_TRUE(same_bits(alone, run(recipe, 10, ranks, 1))) << ranks
                                                                 << (weighs      ? " ranks, weighed"
                                                                     : is_valued ? " ranks, valued"
                                                                                 : " ranks");
    }
}

// Cut as production cuts it, the network has layers of one block: most ranks own nothing of them.
TEST(DeterminismOfLongRuns, OfRanksWithoutUnits) {
  Recipe recipe = all_recipes().front();
  recipe.blocks = BlockRule{};
  const Outcome alone = run(recipe, kSteps, 1, 1);
  EXPECT_TRUE(same_bits(alone, run(recipe, kSteps, 4, 1)));
}

}  // namespace
}  // namespace norn::test
