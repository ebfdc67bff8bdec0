// SPDX-License-Identifier: Apache-2.0
// Rows of sparse inputs that lag behind and are caught up later have the bits of the dense rule.
#include "kernels/named_variant.h"
#include "tests/support/recipes.h"

namespace norn::test {
namespace {

class LazyRows : public testing::TestWithParam<std::string> {};

// Few and unevenly spread entries: most rows rest for many steps.
Recipe resting_recipe(const std::string& optimizer) {
  Recipe recipe = recipe_base("lazy", *find_named<UpdateRule>(optimizer), 0.01f);
  recipe.network.layers = {input_layer("In", 503), hidden_layer("Hidden", 19, {"In"}),
                           output_layer("Out", 31, {"Hidden", "In"}, SoftMax{})};
  recipe.inputs.labels = true;
  recipe.network.training.batch = 12;
  recipe.examples = 90;
  return recipe;
}

TEST_P(LazyRows, HaveTheBitsOfTheDenseRule) {
  for (const float lambda : {0.0f, 1e-2f})
    for (const float decay : {0.0f, 0.05f}) {
      Recipe recipe = resting_recipe(GetParam());
      recipe.network.training.lambda = lambda;
      recipe.network.training.lambda1 = 0.1f * lambda;
      recipe.network.decay = decay;
      const Outcome lazy = run(recipe, 33, 1, 2);
      const Outcome dense = run(
          recipe, 33, 1, 2, [](Network& network, std::int64_t steps) { network.catch_up(steps); });
      EXPECT_TRUE(same_bits(lazy, dense)) << "lambda " << lambda << " decay " << decay;
    }
}

TEST_P(LazyRows, AreCaughtUpOnAnyRank) {
  const Recipe recipe = resting_recipe(GetParam());
  const Outcome lazy = run(recipe, 33, 3, 1);
  const Outcome dense = run(recipe, 33, 1, 1, [](Network& network, std::int64_t steps) {
    if (steps % 5 == 0) network.catch_up(steps);
  });
  EXPECT_TRUE(same_bits(lazy, dense));
}

INSTANTIATE_TEST_SUITE_P(Optimizers, LazyRows, testing::ValuesIn(names_of<UpdateRule>()),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace norn::test
