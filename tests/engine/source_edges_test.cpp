// SPDX-License-Identifier: Apache-2.0
// Edges by source: the same bits on any number of ranks, the numbers of edges by destination, and
// no number that is out of range.
#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "src/nn/stored_weights.h"
#include "tests/data/support.h"
#include "tests/support/device_like_run.h"
#include "tests/support/passing_communicator.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"
#include "tests/support/thread_group.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

constexpr int kWide = 1;  // layers of by_source_recipe()
constexpr int kNarrow = 2;
constexpr int kNear = 5;
constexpr int kFar = 6;

Recipe recipe_of(const UpdateRule& optimizer) {
  return by_source_recipe("by source", optimizer, 0.003f);
}

// The same network, all of it by destination.
Recipe by_destination(Recipe recipe) {
  recipe.blocks.gathered_elements = Index(1) << 40;
  return recipe;
}

using Body = std::function<void(Network&, RecipeData&, Communicator&)>;

void with_network(const Recipe& recipe, int ranks, const Body& body,
                  Pass purpose = Pass::training) {
  const auto of_rank = [&](Communicator& communicator) {
    const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
    const Context context = runtime->context(communicator);
    context.compute.kernels.block_rule = recipe.blocks;
    Network network(make_graph(recipe.network, recipe.shapes(), recipe.name), recipe.shapes(),
                    context, recipe.network.training.batch, purpose);
    network.initialise(1);
    RecipeData data(recipe);
    body(network, data, communicator);
  };
  if (ranks == 1)
    of_rank(*make_single_process());
  else
    run_thread_group(ranks, of_rank);
}

std::vector<bool> edges_by_source(const Recipe& recipe) {
  std::vector<bool> by_source;
  with_network(recipe, 1, [&](Network& network, RecipeData&, Communicator&) {
    for (std::size_t e = 0; e < network.graph().edges.size(); ++e)
      if (network.graph().edges[e].has_weights())
        by_source.push_back(network.weights(int(e))->shape().by_source);
  });
  return by_source;
}

TEST(SourceEdges, AreThoseFromWideLayersToNarrowOnes) {
  //                          In -> Wide -> Narrow -> Narrower <- In, Narrower -> Wide2,
  const std::vector<bool> expected = {false, true, true, false, false,
                                      //  Wide -> Near <- In, Wide2 -> Far
                                      true, false, true};
  EXPECT_EQ(edges_by_source(recipe_of(Sgd{})), expected);
  for (bool by_source : edges_by_source(by_destination(recipe_of(Sgd{})))) EXPECT_FALSE(by_source);
}

// Float32 rounds elsewhere; the first steps of the two are near each other all the same.
TEST(SourceEdges, TrainAsEdgesByDestinationDo) {
  const Recipe recipe = recipe_of(Momentum{});
  const Outcome by_source = run(recipe, 3, 1, 1);
  const Outcome reference = run(by_destination(recipe), 3, 1, 1);
  ASSERT_EQ(by_source.state.size(), reference.state.size());
  const double tolerance = 1e-5 * tolerance_factor();
  for (std::size_t i = 0; i < reference.costs.size(); ++i)
    EXPECT_NEAR(by_source.costs[i], reference.costs[i], tolerance * reference.costs[i]);
  double worst = 0.0;
  for (std::size_t i = 0; i < reference.state.size(); ++i)
    worst = std::max(worst, double(std::abs(by_source.state[i] - reference.state[i])));
  EXPECT_LT(worst, tolerance);
  worst = 0.0;
  for (std::size_t i = 0; i < reference.output.size(); ++i)
    worst = std::max(worst, double(std::abs(by_source.output[i] - reference.output[i])));
  EXPECT_LT(worst, tolerance);
}

TEST(SourceEdges, GiveTheSameBitsWherePartialSumsAreKept) {
  DeviceLikeMemory memory;
  for (Recipe recipe : {recipe_of(Adam{}), by_source_recipe_with_penalties()}) {
    SCOPED_TRACE(recipe.name);
    Outcome alone = run_in(host_memory(), recipe, 1);
    for (int ranks : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks", ranks));
      EXPECT_TRUE(same_bits(alone, run_in(memory, recipe, ranks)));
    }
    recipe.blocks = BlockRule{};  // few blocks: sums are never accumulators
    recipe.blocks.gathered_elements = 1;
    recipe.blocks.minimum_width = 256;
    alone = run_in(host_memory(), recipe, 1);
    for (int ranks : {1, 3}) EXPECT_TRUE(same_bits(alone, run_in(memory, recipe, ranks)));
  }
}

// Every rank's columns of the wide layer's activations and of both outputs.
std::vector<float> predictions(const Recipe& recipe, int ranks, Pass purpose) {
  std::vector<float> all;
  std::mutex mutex;
  const Body body = [&](Network& network, RecipeData& data, Communicator& communicator) {
    const BoundBatch batch = data.batch(0);
    std::vector<float> mine;
    const MatrixView<const float> wide = network.activations(batch, kWide);
    mine.insert(mine.end(), wide.data, wide.data + wide.size());
    for (int layer : {kNear, kFar}) {
      const MatrixView<const float> y = network.outputs(batch, layer);
      Matrix<float> whole(y.rows, y.cols);
      for (Index r = 0; r < y.rows; ++r) std::copy_n(y.row(r), y.cols, whole.view().row(r));
      communicator.all_gather_columns(whole.view(), network.shares(layer));
      mine.insert(mine.end(), whole.view().data, whole.view().data + whole.view().size());
    }
    const std::lock_guard lock(mutex);
    if (all.empty()) all = mine;
    EXPECT_EQ(std::memcmp(all.data(), mine.data(), all.size() * sizeof(float)), 0);
  };
  with_network(recipe, ranks, body, purpose);
  return all;
}

// Notes how wide the matrices are that ranks exchange.
class WidthsNoted final : public PassingCommunicator {
 public:
  using PassingCommunicator::PassingCommunicator;
  Index widest() const { return widest_; }

 private:
  void do_all_gather_columns(MatrixView<float> whole, std::span<const Range> shares) override {
    widest_ = std::max(widest_, whole.cols);
    PassingCommunicator::do_all_gather_columns(whole, shares);
  }
  void do_all_gather_columns(MatrixView<Bfloat16> whole, std::span<const Range> shares) override {
    widest_ = std::max(widest_, whole.cols);
    PassingCommunicator::do_all_gather_columns(whole, shares);
  }
  void do_reduce_scatter_columns(MatrixView<std::int64_t> whole,
                                 std::span<const Range> shares) override {
    widest_ = std::max(widest_, whole.cols);
    PassingCommunicator::do_reduce_scatter_columns(whole, shares);
  }
  Index widest_ = 0;
};

Index widest_exchanged(const Recipe& recipe) {
  Index widest = 0;
  run_thread_group(2, [&](Communicator& communicator) {
    WidthsNoted noted(communicator);
    const std::unique_ptr<Runtime> runtime = make_test_runtime(1);
    const Context context = runtime->context(noted);
    context.compute.kernels.block_rule = recipe.blocks;
    Network network(make_graph(recipe.network, recipe.shapes(), recipe.name), recipe.shapes(),
                    context, recipe.network.training.batch, Pass::training);
    network.initialise(1);
    RecipeData data(recipe);
    network.train_step(data.batch(0), data.position(0));
    if (communicator.rank() == 0) widest = noted.widest();
    communicator.barrier();
  });
  return widest;
}

TEST(SourceEdges, MoveNothingOfTheWideLayers) {
  EXPECT_EQ(widest_exchanged(by_destination(recipe_of(Sgd{}))), 407);
  EXPECT_EQ(widest_exchanged(recipe_of(Sgd{})), 101);
}

TEST(SourceEdges, GiveTheSameBitsOnAnyNumberOfRanksWithEveryOptimizer) {
  constexpr int kSteps = 4;
  for (const std::string& name : names_of<UpdateRule>()) {
    const Recipe recipe = recipe_of(*find_named<UpdateRule>(name));
    const Outcome alone = run(recipe, kSteps, 1, 1);
    for (int ranks : {2, 5}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", name, ranks));
      EXPECT_TRUE(same_bits(alone, run(recipe, kSteps, ranks, 1)));
    }
  }
}

TEST(SourceEdges, GiveTheSameBitsOnMoreRanksThanBlocks) {
  Recipe recipe = recipe_of(Adam{});
  recipe.blocks = BlockRule{};  // narrow layers have one block, wide ones five
  recipe.blocks.gathered_elements = 1;
  const Outcome alone = run(recipe, 6, 1, 1);
  for (int ranks : {3, 5, 7}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    EXPECT_TRUE(same_bits(alone, run(recipe, 6, ranks, 1)));
  }
}

// A GPU's blocks of hidden layers are smaller than those of output layers.
TEST(SourceEdges, GiveTheSameBitsBesideASkipToALayerOfOtherBlocks) {
  Recipe recipe = recipe_base("skip to an output", Adam{}, 0.003f);
  recipe.network.layers = {
      input_layer("In", 333), hidden_layer("Wide", 407, {"In"}, Activation(Relu{})),
      hidden_layer("Narrow", 61, {"Wide"}), output_layer("Out", 407, {"Narrow"})};
  recipe.network.layers[3].skips = {"Wide"};
  recipe.blocks.gathered_elements = 1;
  recipe.blocks.minimum_width = 16;
  recipe.blocks.minimum_hidden_width = recipe.blocks.hidden_multiple = 64;
  const Outcome alone = run(recipe, 6, 1, 1);
  for (int ranks : {2, 3, 4}) EXPECT_TRUE(same_bits(alone, run(recipe, 6, ranks, 2))) << ranks;
}

TEST(SourceEdges, PredictTheSameOnAnyNumberOfRanks) {
  const Recipe recipe = recipe_of(Adam{});
  const std::vector<float> alone = predictions(recipe, 1, Pass::training);
  ASSERT_EQ(alone.size(), 37u * (407 + 37 + 101));
  for (int ranks : {2, 3, 4, 5}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    EXPECT_EQ(predictions(recipe, ranks, Pass::training), alone);
    EXPECT_EQ(predictions(recipe, ranks, Pass::prediction), alone);
  }
}

// Multiplies the weights from Wide to Narrow.
void scale_weights(Network& network, float factor) {
  for (std::size_t e = 0; e < network.graph().edges.size(); ++e) {
    if (network.graph().edges[e].destination != kNarrow) continue;
    const Compute& compute = network.context().compute;
    edit_rows(compute, network.weights(int(e))->values(), [&](Index, MatrixView<float> rows) {
      compute.kernels.pointwise->scale(factor, rows);
    });
  }
}

// Batch normalisation takes the size of pre-activations away: what is left is their precision.
TEST(SourceEdges, KeepTheirPrecisionFromTinyToHugePreActivations) {
  const Recipe recipe = recipe_of(Sgd{});
  const auto cost = [&](const Recipe& of, float factor) {
    double sum = 0.0;
    with_network(of, 3, [&](Network& network, RecipeData& data, Communicator& communicator) {
      scale_weights(network, factor);
      const double mine = network.train_step(data.batch(0), data.position(0)).value();
      if (communicator.rank() == 0) sum = mine;
    });
    return sum;
  };
  for (float factor : {0x1p-20f, 0x1p-6f, 1.0f, 0x1p10f, 0x1p20f, 0x1p30f}) {
    SCOPED_TRACE(factor);
    const double expected = cost(by_destination(recipe), factor);
    EXPECT_NEAR(cost(recipe, factor), expected, 1e-6 * tolerance_factor() * expected);
  }
}

TEST(SourceEdges, OfPreActivationsOutOfRangeEndTheStepOnAllRanks) {
  const Recipe recipe = recipe_of(Sgd{});
  for (int ranks : {1, 3})
    for (float factor : {0x1p45f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
      SCOPED_TRACE(fmt::format("{} ranks, factor {}", ranks, factor));
      int diverged = 0;
      int refused = 0;
      std::mutex mutex;
      with_network(recipe, ranks, [&](Network& network, RecipeData& data, Communicator&) {
        scale_weights(network, factor);
        const BoundBatch batch = data.batch(0);
        const std::string refusal =
            message_of<DivergenceError>([&] { network.outputs(batch, kFar); });
        const std::string divergence =
            message_of<DivergenceError>([&] { network.train_step(batch, data.position(0)); });
        const std::lock_guard lock(mutex);
        refused += refusal ==
                   "layer \"Narrow\": a pre-activation is not finite or too large; the model has "
                   "diverged, or the inputs are far from what it was trained on";
        diverged += divergence ==
                    "layer \"Narrow\": a pre-activation is not finite or beyond 2^34 at step 0 "
                    "(epoch 1); lower the learning rate";
      });
      EXPECT_EQ(refused, ranks);
      EXPECT_EQ(diverged, ranks);
    }
}

// What one prediction left in the coarse accumulators is not part of the next.
TEST(SourceEdges, ForgetTheLargePreActivationsOfTheStepBefore) {
  const Recipe recipe = recipe_of(Sgd{});
  with_network(recipe, 3, [&](Network& network, RecipeData& data, Communicator&) {
    const BoundBatch batch = data.batch(0);
    const auto outputs = [&] {
      const MatrixView<const float> y = network.outputs(batch, kFar);
      return std::vector<float>(y.data, y.data + y.size());
    };
    const Range mine = network.unit_layer(kFar)->mine();
    const std::vector<float> before = outputs();
    scale_weights(network, 0x1p20f);
    const std::vector<float> large = outputs();
    scale_weights(network, 0x1p-20f);
    const std::vector<float> after = outputs();
    bool differs = false;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Index unit = Index(i) % 101;
      if (unit < mine.begin || unit >= mine.end) continue;
      EXPECT_EQ(before[i], after[i]);
      differs = differs || before[i] != large[i];
    }
    EXPECT_TRUE(differs || mine.count() == 0);
  });
}

}  // namespace
}  // namespace norn::test
