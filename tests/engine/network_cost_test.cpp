// SPDX-License-Identifier: Apache-2.0
// The cost of examples that a network is not trained on.
#include "norn/base/error.h"
#include "src/engine/predict/predictor.h"
#include "tests/data/support.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cmath>
#include <limits>
#include <vector>

namespace norn::test {
namespace {

// Without noise a step's cost is that of the weights before it.
TEST(Cost, OfABatchIsTheOneThatAStepReports) {
  std::vector<Recipe> recipes = all_recipes();
  recipes.push_back(fused_recipe(SoftMax{}));
  recipes.push_back(fused_recipe(Activation(Sigmoid{})));
  for (Recipe recipe : recipes) {
    SCOPED_TRACE(recipe.name);
    recipe.network.denoising = 0.0f;
    bool normalises = false;
    for (LayerDescriptor& layer : recipe.network.layers) {
      layer.dropout = 0.0f;
      normalises = normalises || layer.batch_normalization;
    }
    if (normalises) continue;  // by other statistics in training
    const auto one = make_single_process();
    const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
    const Context context = runtime->context(*one);
    context.compute.kernels.block_rule = recipe.blocks;
    Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(), context,
                    recipe.network.training.batch, Pass::training, nullptr,
                    recipe.layers_by_example());
    network.initialise(1);
    RecipeData data(recipe);
    for (std::int64_t step = 0; step < 3; ++step) {
      network.catch_up(step);
      const double cost = network.cost(data.batch(step)).value();
      const double trained = network.train_step(data.batch(step), data.position(step)).value();
      EXPECT_NEAR(cost, trained, 2e-5 * tolerance_factor() * std::abs(trained));
      EXPECT_GT(cost, 0.0);
    }
  }
}

// Lists and cost of two passes, on any number of ranks.
TEST(Cost, ComesWithTheOutputsInOnePass) {
  for (const Recipe& recipe : all_recipes())
    for (int ranks : {1, 3}) {
      SCOPED_TRACE(recipe.name);
      run_thread_group(ranks, [&](Communicator& communicator) {
        const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
        const Context context = runtime->context(communicator);
        context.compute.kernels.block_rule = recipe.blocks;
        Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(),
                        context, recipe.network.training.batch, Pass::training, nullptr,
                        recipe.layers_by_example());
        network.initialise(1);
        RecipeData data(recipe);
        const BoundBatch batch = data.batch(0);
        for (int layer : network.order()) {
          if (!network.unit_layer(layer) || !network.unit_layer(layer)->is_output()) continue;
          Predictor alone(network, layer, 9), together(network, layer, 9);
          const FixedSum cost = network.cost(batch);
          const TopK& expected = alone.predict(batch, {});
          FixedSum reduced;
          const TopK& best = together.predict_with_cost(batch, {}, reduced);
          EXPECT_EQ(reduced.value(), cost.value());
          for (Index r = 0; r < batch.examples; ++r)
            for (Index i = 0; i < best.k; ++i) {
              ASSERT_EQ(best.unit.view()(r, i), expected.unit.view()(r, i));
              ASSERT_EQ(best.score.view()(r, i), expected.score.view()(r, i));
            }
        }
      });
    }
}

TEST(Cost, ThatIsNotFiniteNamesTheLayer) {
  Recipe recipe = all_recipes().front();
  const auto one = make_single_process();
  const std::unique_ptr<Runtime> runtime = make_test_runtime(2);
  Network network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(),
                  runtime->context(*one), recipe.network.training.batch, Pass::training, nullptr,
                  recipe.layers_by_example());
  network.initialise(1);
  const int layer = network.graph().layer("Out");
  const std::vector<float> biases(std::size_t(network.unit_layer(layer)->mine().count()),
                                  std::numeric_limits<float>::quiet_NaN());
  network.unit_layer(layer)->bias.value.write(biases.data(), Index(biases.size()));
  RecipeData data(recipe);
  EXPECT_EQ(message_of<DivergenceError>([&] { network.cost(data.batch(0)); }),
            "layer \"Out\": the cost of examples that it is not trained on is not finite; the "
            "network has diverged: lower the learning rate, or the examples are far from those "
            "that it is trained on");
}

}  // namespace
}  // namespace norn::test
