// SPDX-License-Identifier: Apache-2.0
// Layers of which ranks have examples: the same model as by unit, and the same bits on any number
// of ranks and threads.
#include "tests/support/device_like_run.h"
#include "tests/support/recipes.h"
#include "tests/support/thread_group.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace norn::test {
namespace {

constexpr std::int64_t kSteps = 9;

// The recipe with other widths, batches, rules and settings.
Recipe draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
  const std::vector<UpdateRule> rules = {Sgd{}, Momentum{}, Adam{}, AdaGrad{}};
  Recipe recipe = by_example_recipe(rules[random() % rules.size()], 0.01f);
  recipe.network.training.seed = recipe.data_seed = seed;
  recipe.network.training.batch = upto(37);
  recipe.examples = 2 * recipe.network.training.batch + upto(recipe.network.training.batch);
  const Index width = upto(40);
  const std::vector<Index> widths{upto(50), width, upto(40), upto(70), width, width, upto(60)};
  for (std::size_t i = 0; i < widths.size(); ++i) {
    LayerDescriptor& layer = recipe.network.layers[i];
    layer.extent[0] = widths[i];
    if (random() % 2) layer.dropout = 0.0f;
    if (random() % 2) layer.batch_normalization = false;
  }
  if (random() % 2) recipe.network.layers[1].weight_norm = 0.7f;
  return recipe;
}

// What a run leaves.
struct Trained {
  std::vector<float> state;
  std::vector<double> costs;
  std::vector<float> outputs;
};

Trained train(const Recipe& recipe, int ranks, int threads) {
  Trained result;
  std::mutex mutex;
  const auto body = [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(threads);
    const Context context = runtime->context(communicator);
    const std::unique_ptr<Network> held = network_of(recipe, context);
    Network& network = *held;
    RecipeData data(recipe);
    const std::vector<double> costs = train_steps(network, data, kSteps);
    const int third = network.graph().layer("Third");
    const MatrixView<const float> y = network.activations(data.batch(0), third);
    std::vector<float> outputs;
    for (Index r = 0; r < y.rows; ++r) outputs.insert(outputs.end(), y.row(r), y.row(r) + y.cols);
    const std::vector<float> state = gather_state(network);
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) result = {state, costs, outputs};
  };
  if (ranks == 1)
    body(*make_single_process());
  else
    run_thread_group(ranks, body);
  return result;
}

// Beside 1 and what is expected.
template <typename T>
double largest_difference(const std::vector<T>& got, const std::vector<T>& expected) {
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double apart =
        std::abs(double(got[i]) - double(expected[i])) / (1 + std::abs(double(expected[i])));
    if (!(apart < HUGE_VAL)) return HUGE_VAL;
    largest = std::max(largest, apart);
  }
  return largest;
}

class ByExample : public testing::Test {
 protected:
  const std::uint64_t seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

TEST_F(ByExample, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  for (std::uint64_t i = 0; i < 8; ++i) {
    const Recipe recipe = draw(seed_ + i);
    SCOPED_TRACE(testing::Message() << "case " << i << ", batch " << recipe.network.training.batch
                                    << ", examples " << recipe.examples);
    const Trained alone = train(recipe, 1, 1);
    for (const float value : alone.state) ASSERT_TRUE(std::isfinite(value));
    for (const auto& [ranks, threads] :
         std::vector<std::pair<int, int>>{{1, 3}, {2, 1}, {3, 2}, {4, 1}, {9, 1}}) {
      const Trained many = train(recipe, ranks, threads);
      EXPECT_EQ(many.costs, alone.costs) << ranks;
      EXPECT_EQ(many.state, alone.state) << ranks;
      EXPECT_EQ(many.outputs, alone.outputs) << ranks;
    }
  }
}

// A unit at a kink, or one that batch normalization divides by next to nothing, takes another way
// by a rounding: few networks have such.
TEST_F(ByExample, LearnsWhatLayersByUnitLearn) {
  constexpr int kNetworks = 8;
  std::string others;
  int alike = 0;
  for (std::uint64_t i = 0; i < kNetworks; ++i) {
    Recipe recipe = draw(seed_ + i);
    recipe.network.training.optimizer = Momentum{};
    const Trained by_example = train(recipe, 2, 1);
    recipe.by_example.clear();
    const Trained by_unit = train(recipe, 1, 1);
    ASSERT_EQ(by_example.state.size(), by_unit.state.size());
    // Where products round their operands, those of the other layout round to others at times.
    const double most = tolerance_factor() > 1.0 ? 2e-2 : 1e-3;
    const double apart = std::max(largest_difference(by_example.costs, by_unit.costs),
                                  largest_difference(by_example.state, by_unit.state));
    if (apart <= most)
      ++alike;
    else
      others += fmt::format("case {}, batch {}: {}\n", i, recipe.network.training.batch, apart);
  }
  EXPECT_GE(alike, kNetworks - 2) << others;
}

// Sums of deltas stand in slots or in accumulators there, and copies for products beside rows.
TEST_F(ByExample, HasTheSameBitsInTheWaysOfADevice) {
  DeviceLikeMemory memory;
  for (Recipe recipe : {draw(seed_), by_example_recipe(Adam{}, 0.003f), convolution_recipe(),
                        pooling_recipe(), images_and_clicks_recipe()}) {
    SCOPED_TRACE(recipe.name);
    Outcome alone = run_in(host_memory(), recipe, 1);
    for (int ranks : {1, 2, 3}) EXPECT_TRUE(same_bits(alone, run_in(memory, recipe, ranks)));
    recipe.blocks = BlockRule{};  // few blocks: slots are enough
    alone = run_in(host_memory(), recipe, 1);
    for (int ranks : {1, 3}) EXPECT_TRUE(same_bits(alone, run_in(memory, recipe, ranks)));
  }
}

}  // namespace
}  // namespace norn::test
