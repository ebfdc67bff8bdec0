// SPDX-License-Identifier: Apache-2.0
// Runs whose numbers stop being finite: costs, and what would be saved.
#include "norn/base/error.h"
#include "src/engine/model/model_file.h"
#include "src/engine/predict/evaluator.h"
#include "src/engine/train/trainer.h"
#include "src/nn/stored_weights.h"
#include "tests/data/support.h"
#include "tests/support/message_of.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A linear network of squared errors, whose costs can be made as large as is wanted.
Recipe linear_recipe() {
  Recipe recipe = recipe_base("linear", Adam{}, 0.001f);
  recipe.network.layers = {input_layer("In", 133),
                           hidden_layer("Hidden", 77, {"In"}, Activation(Linear{})),
                           output_layer("Out", 103, {"Hidden"}, Activation(Linear{}))};
  recipe.network.loss = SquaredError{};
  return recipe;
}

struct Trained {
  Trained(const Recipe& recipe, Communicator& communicator)
      : runtime(make_test_runtime(1, 0)),
        network(make_graph(recipe.network, recipe.shapes(), "test"), recipe.shapes(),
                small_blocks(runtime->context(communicator), recipe), recipe.network.training.batch,
                Pass::training) {
    network.initialise(1);
  }
  static Context small_blocks(Context context, const Recipe& recipe) {
    context.compute.kernels.block_rule = recipe.blocks;
    return context;
  }
  // Makes the biases that this rank has of a layer so large.
  void set_biases(const char* layer, float value) {
    UnitLayer& unit = *network.unit_layer(network.graph().layer(layer));
    const std::vector<float> biases(std::size_t(unit.mine().count()), value);
    unit.bias.value.write(biases.data(), Index(biases.size()));
  }
  std::unique_ptr<Runtime> runtime;
  Network network;
};

template <typename Body>
void on_ranks(int ranks, const Body& body) {
  if (ranks == 1)
    body(*make_single_process());
  else
    run_thread_group(ranks, body);
}

// What every rank says.
template <typename Act>
std::vector<std::string> divergences(int ranks, const Act& act) {
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  on_ranks(ranks, [&](Communicator& communicator) {
    said[std::size_t(communicator.rank())] =
        message_of<DivergenceError>([&] { act(communicator); });
  });
  return said;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// 103 units, each with a cost of 2^61: every block's is a number, their sum is none.
constexpr float kFar = 0x1p31f;

TEST(Divergence, IsACostBeyondTheSumsRange) {
  const Recipe recipe = linear_recipe();
  for (int ranks : {1, 3}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const auto said = divergences(ranks, [&](Communicator& communicator) {
      Trained trained(recipe, communicator);
      RecipeData data(recipe);
      trained.set_biases("Out", kFar);
      trained.network.train_step(data.batch(0), data.position(0));
    });
    for (const std::string& message : said)
      EXPECT_EQ(message,
                "the cost is beyond 2^62 at step 0 (epoch 1), check the targets' values, or lower "
                "the learning rate");
  }
}

TEST(Divergence, IsACostOfHeldOutExamplesBeyondTheSumsRange) {
  const Recipe recipe = linear_recipe();
  for (int ranks : {1, 3}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const auto said = divergences(ranks, [&](Communicator& communicator) {
      Trained trained(recipe, communicator);
      RecipeData data(recipe);
      trained.set_biases("Out", kFar);
      trained.network.cost(data.batch(0));
    });
    for (const std::string& message : said)
      EXPECT_THAT(message,
                  HasSubstr("layer \"Out\": the cost of examples that it is not trained on "
                            "is not finite"));
  }
}

// Each step's cost is one that sums hold, the epoch's is not.
constexpr float kHalfWay = 0x1.9p24f;

TEST(Divergence, IsACostOfAnEpochBeyondTheSumsRange) {
  Recipe recipe = linear_recipe();
  recipe.network.training.optimizer = Sgd{};
  recipe.network.training.rate = 1e-20f;
  const TempDir folder;
  write_data(recipe, folder / "data.nc");
  const DataSources sources{{folder / "data.nc"}, {folder / "data.nc"}};
  for (int ranks : {1, 3}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    std::vector<std::string> trained_said = divergences(ranks, [&](Communicator& communicator) {
      Trained trained(recipe, communicator);
      trained.set_biases("Out", kHalfWay);
      const DataBinding data(recipe.network, sources, DataBinding::Layers::inputs_and_outputs);
      TrainingState state;
      train(trained.network, data, {}, false, {}, state);
    });
    for (const std::string& message : trained_said)
      EXPECT_EQ(message,
                "the cost of the epoch is beyond 2^62 after step 4 (epoch 1); lower the learning "
                "rate");
    std::vector<std::string> fused_said = divergences(ranks, [&](Communicator& communicator) {
      Trained trained(recipe, communicator);
      trained.set_biases("Out", kHalfWay);
      const DataBinding data(recipe.network, sources, DataBinding::Layers::inputs_and_outputs);
      EvaluationSettings settings;
      settings.output_layer = 2;
      settings.with_cost = true;
      evaluate(trained.network, data, settings);
    });
    for (const std::string& message : fused_said)
      EXPECT_EQ(message,
                "the cost of all 159 examples is beyond 2^62; the network has diverged: lower the "
                "learning rate, or the examples are far from those that it is trained on");
  }
}

void put(Memory& memory, float value, const WeightView& weights, Index row, Index column) {
  Matrix<float> host(1, weights.cols());
  read_weights(memory, weights.row_range(row, 1), host.view());
  host.view()(0, column) = value;
  write_weights(memory, host.view(), weights.row_range(row, 1));
}

// One value of those that a file holds is spoilt, wherever it stands: nothing is written, all ranks
// say so, and what stood there stays.
TEST(Divergence, IsNeverSaved) {
  const Recipe recipe = all_recipes()[3];  // with batch normalisation
  constexpr Index kUnits = 77;             // of the layer "Third"
  constexpr Index kSources = 50;
  const unsigned seed = fresh_seed();
  std::mt19937_64 random(seed);
  const std::vector<float> bad = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
  for (int ranks : {1, 3}) {
    const TempDir folder;
    const fs::path path = folder / "model.nc";
    on_ranks(ranks, [&](Communicator& communicator) {
      Trained good(recipe, communicator);
      save_model(path, good.network, TrainingState{});
    });
    const std::string before = read_text(path);
    for (const auto& [what, item] : {std::pair{"weight", "weight2_weights"},
                                     {"state", "weight2_slot0"},
                                     {"bias", "weight2_bias"},
                                     {"variance", "layer3_runningVarianceBN"},
                                     {"bias's state", "layer3_bias_slot0"}}) {
      const std::string spoilt = what;
      const bool of_weight = spoilt == "weight" || spoilt == "state";
      const Index place = Index(random() % 1000);
      const float value = bad[random() % bad.size()];
      SCOPED_TRACE(
          fmt::format("{} of {} ranks, {} at {}, seed {}", what, ranks, value, place, seed));
      const auto said = divergences(ranks, [&](Communicator& communicator) {
        Trained trained(recipe, communicator);
        Network& network = trained.network;
        Memory& memory = network.context().compute.memory;
        UnitLayer& unit = *network.unit_layer(network.graph().layer("Third"));
        Weights& own_weights = unit.connections[0].weights();
        // The rank that owns unit `place` of the layer, and no other, has the value.
        const Index wanted = place % kUnits;
        if (wanted >= unit.mine().begin && wanted < unit.mine().end) {
          const Index own = wanted - unit.mine().begin;
          float* at = spoilt == "bias"       ? unit.bias.value.data() + own
                      : spoilt == "variance" ? unit.running_variance.data() + own
                                             : unit.bias.slot[0].data() + own;
          if (of_weight)
            put(memory, value, own_weights.part(int(spoilt == "state")), own, place % kSources);
          else
            memory.write(at, &value, sizeof value);
        }
        TrainingState state;
        state.step = 7, state.epoch = 2, state.batch = 1;
        save_model(path, network, state);
      });
      const Index unit = place % kUnits;
      for (const std::string& message : said)
        EXPECT_EQ(message,
                  fmt::format("\"{}\" is {} at element {} after step 7 (epoch 3), so nothing is "
                              "saved; lower the learning rate",
                              item, value, of_weight ? place % kSources * kUnits + unit : unit));
      EXPECT_EQ(read_text(path), before);
      EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
    }
  }
}

// The step that ends the run makes weights infinite, and its own cost knows nothing of it.
TEST(Divergence, InTheLastStepEndsTheRunAndLeavesTheCheckpointsOfBefore) {
  Recipe recipe = linear_recipe();
  recipe.network.training.optimizer = Sgd{};
  recipe.network.training.epochs = 3;
  recipe.network.training.lambda = recipe.network.training.lambda1 = 0.0f;
  recipe.network.training.rate = 1e-4f;
  for (int ranks : {1, 3}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const TempDir folder;
    write_data(recipe, folder / "data.nc");
    const std::int64_t last = 3 * ((recipe.examples + 36) / 37) - 1;
    const auto said = divergences(ranks, [&](Communicator& communicator) {
      Trained trained(recipe, communicator);
      const DataSources sources{{folder / "data.nc"}, {folder / "data.nc"}};
      const DataBinding data(recipe.network, sources, DataBinding::Layers::inputs_and_outputs);
      TrainingState state;
      TrainingObserver observer;
      observer.on_step = [&](const StepReport& report) {
        if (report.step == last) trained.network.set_rate(kInfinity, 0, last);
      };
      const std::atomic<bool> stop = false;
      train(trained.network, data, {folder / "model.nc", 1, 0.0, 2}, stop, observer, state);
      save_model(folder / "model.nc", trained.network, state);
    });
    for (const std::string& message : said)
      EXPECT_THAT(message, HasSubstr(fmt::format("after step {} (epoch 3)", last + 1)));
    EXPECT_EQ(find_checkpoint(folder / "model.nc"), folder / "model.epoch2.nc");
    EXPECT_FALSE(fs::exists(folder / "model.nc"));
  }
}

}  // namespace
}  // namespace norn::test
