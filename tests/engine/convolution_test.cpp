// SPDX-License-Identifier: Apache-2.0
// Convolutional layers: the same bits on any number of ranks and threads.
#include "tests/support/recipes.h"

#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

constexpr std::int64_t kSteps = 7;

Recipe draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
  Recipe recipe = recipe_base("convolution", Adam{}, 0.003f);
  recipe.network.training.seed = recipe.data_seed = seed;
  recipe.network.training.batch = upto(37);
  recipe.examples = 2 * recipe.network.training.batch + upto(recipe.network.training.batch);
  recipe.inputs = {.name = "dense", .sparse = false};
  LayerDescriptor image = input_layer("In", 1);
  image.extent = {3 + upto(8), 3 + upto(8), upto(5), 1};
  image.dimensions = 3;
  recipe.network.layers = {image, convolution("First", upto(9), 3, 1, {"In"}),
                           convolution("Second", upto(9), 3, 2, {"First", "In"}),
                           hidden_layer("Full", upto(40), {"Second", "First"}),
                           output_layer("Out", upto(60), {"Full"}, SoftMax{})};
  recipe.network.layers[1].batch_normalization = random() % 2;
  recipe.network.layers[2].batch_normalization = random() % 2;
  recipe.network.layers[1].dropout = random() % 2 ? 0.2f : 0.0f;
  if (random() % 2) recipe.network.layers[2].weight_norm = 0.7f;
  return recipe;
}

// The same, with poolings in front of the second convolution and behind it.
Recipe draw_pooled(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
  const auto function = [&] {
    using enum PoolingFunction;
    return std::array{max, average}[random() % 2];
  };
  Recipe recipe = draw(seed);
  auto& layers = recipe.network.layers;
  layers[2].sources = {"Mean"};
  layers[3].sources = {"Largest", "Second"};
  recipe.network.lrn.n = int(upto(7));
  const LayerDescriptor mean = pooling("Mean", function(), 1 + upto(3), 1 + upto(2), {"First"});
  layers.insert(layers.begin() + 2, mean);
  layers.insert(layers.begin() + 4,
                random() % 2 ? pooling("Largest", function(), upto(4), 2, {"Second"})
                             : pooling_layer("Largest", PoolingFunction::lrn, {"Second"}));
  const Index towers = upto(30);
  layers.insert(layers.end() - 1,
                {hidden_layer("Left", towers, {"Full"}), hidden_layer("Right", towers, {"Full"}),
                 pooling_layer("Towers", PoolingFunction(4 + random() % 3), {"Left", "Right"})});
  layers.back().sources = {"Towers", "Full"};
  return recipe;
}

// Images beside clicks, in batches of 100 and a short last one, of drawn windows and settings.
Recipe draw_with_clicks(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
  Recipe recipe = images_and_clicks_recipe();
  recipe.network.training.seed = recipe.data_seed = seed;
  recipe.examples = 100 * upto(3) + upto(99);
  auto& layers = recipe.network.layers;
  layers[0].extent = {4 + upto(9), 4 + upto(9), upto(4), 1};
  layers[2].extent[0] = layers[3].extent[0] = upto(20);
  layers[3].kernel = {2 * upto(2) - 1, 3, 1};
  layers[4].kernel = {1 + upto(2), 2, 1};
  layers[6].extent[0] = upto(20);
  layers[6].stride = {upto(3), 2, 1};
  layers[7].extent[0] = upto(99);
  for (LayerDescriptor& layer : layers) {
    if (random() % 2) layer.batch_normalization = false;
    if (random() % 2) layer.dropout = 0.0f;
  }
  if (random() % 2) {  // clicks of all items, as numbers
    recipe.images.clear();
    recipe.inputs = {.name = "dense", .sparse = false};
  }
  return recipe;
}

void expect_same_bits(const Recipe& recipe) {
  const Outcome alone = run(recipe, kSteps, 1, 1);
  for (const auto& [ranks, threads] :
       std::vector<std::pair<int, int>>{{1, 3}, {2, 1}, {3, 2}, {4, 1}})
    EXPECT_TRUE(same_bits(alone, run(recipe, kSteps, ranks, threads))) << ranks;
}

TEST(Convolution, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Recipe recipe = draw(seed + i);
    SCOPED_TRACE(testing::Message() << "case " << i << ", batch " << recipe.network.training.batch);
    expect_same_bits(recipe);
  }
}

TEST(Convolution, AndPoolingHaveTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 8; ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    expect_same_bits(draw_pooled(seed + i));
  }
}

TEST(Convolution, BesideClicksHasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    expect_same_bits(draw_with_clicks(seed + i));
  }
}

}  // namespace
}  // namespace norn::test
