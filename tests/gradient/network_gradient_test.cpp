// SPDX-License-Identifier: Apache-2.0
// Cost and gradients of whole networks: several sources and outputs, skips, shared weights,
// corruption, penalties and caps.
#include "tests/gradient/kinds.h"
#include "tests/support/recipes.h"

#include <cmath>

#include <fmt/format.h>

namespace norn::test {
namespace {

constexpr Index kExamples = 5;
const DataKind kBoolean = {};
const DataKind kValued = {.name = "sparse valued", .valued = true};
const DataKind kDense = {.name = "dense", .sparse = false};
const LayerActivation kTanh = Activation(Tanh{});
const LayerActivation kSigmoid = Activation(Sigmoid{});

Problem chain(const LayerActivation& output = SoftMax{}) {
  Problem problem;
  problem.network.layers = {input_layer("In", 9), hidden_layer("Hidden", 7, {"In"}, kTanh),
                            output_layer("Out", 8, {"Hidden"}, output)};
  return problem;
}

void give_data(Problem& problem, const DataKind& inputs, std::uint64_t seed,
               const DataKind& targets = kBoolean) {
  for (const LayerDescriptor& layer : problem.network.layers)
    if (!layer.dataset.empty())
      problem.set_data(layer.name, layer.kind == LayerKind::input ? inputs : targets, kExamples,
                       seed);
}

TEST(NetworkGradient, OfTwoInputsOneSparseOneDense) {
  Problem problem;
  problem.network.layers = {input_layer("Items", 9), input_layer("Features", 4),
                            hidden_layer("Hidden", 7, {"Items", "Features"}),
                            output_layer("Out", 8, {"Hidden", "Features", "Items"}, SoftMax{})};
  problem.set_data("Items", kValued, kExamples, 1);
  problem.set_data("Features", kDense, kExamples, 2);
  problem.set_data("Out", kBoolean, kExamples, 3);
  EXPECT_TRUE(engine_agrees(problem, 10));
}

TEST(NetworkGradient, OfLayersThatJoinAndPart) {
  Problem problem;
  problem.network.loss = SquaredError{};
  problem.network.layers = {input_layer("In", 9), hidden_layer("Left", 6, {"In"}),
                            hidden_layer("Right", 5, {"In"}, kSigmoid),
                            hidden_layer("Deep", 4, {"Left", "Right"}, Activation(Elu{})),
                            output_layer("Out", 8, {"Deep", "Left"}, Activation(Linear{}))};
  for (const DataKind& kind : {kBoolean, kValued, kDense}) {
    SCOPED_TRACE(kind.name);
    give_data(problem, kind, 20);
    EXPECT_TRUE(engine_agrees(problem, 21));
  }
}

TEST(NetworkGradient, IsIndifferentToTheOrderOfLayersInTheDescriptor) {
  Problem problem;
  problem.network.layers = {output_layer("Out", 8, {"Second"}),
                            hidden_layer("Second", 6, {"First"}), hidden_layer("First", 7, {"In"}),
                            input_layer("In", 9)};
  give_data(problem, kValued, 25);
  EXPECT_TRUE(engine_agrees(problem, 26));
}

TEST(NetworkGradient, OfSkips) {
  Problem problem;
  problem.network.layers = {
      input_layer("In", 6), hidden_layer("First", 6, {"In"}), hidden_layer("Second", 6, {"First"}),
      hidden_layer("Third", 6, {"Second"}, kSigmoid), output_layer("Out", 6, {"Third"}, SoftMax{})};
  problem.network.layers[2].skips = {"In"};
  problem.network.layers[3].skips = {"First", "Second"};
  problem.network.layers[4].skips = {"First"};
  give_data(problem, kDense, 30);
  EXPECT_TRUE(engine_agrees(problem, 31));
  problem.network.layers[3].batch_normalization = true;
  EXPECT_TRUE(engine_agrees(problem, 32));
}

// A feature's delta is a sum over units whose deltas cancel.
TEST(NetworkGradient, OfFeaturesOfUnits) {
  for (const LayerActivation& output : {LayerActivation(SoftMax{}), kSigmoid})
    for (const bool valued : {false, true}) {
      Problem problem = chain(output);
      give_features(problem.network, "Out", valued ? 5 : 3, valued, 41);
      for (const DataKind& kind : {kBoolean, kDense}) {
        SCOPED_TRACE(kind.name);
        give_data(problem, kind, 42);
        EXPECT_TRUE(engine_agrees(problem, 43, {.cancelled = 1e-7}));
      }
    }
}

// Weights that are shared out by source units.
TEST(NetworkGradient, OfWideLayersThatFeedNarrowOnes) {
  for (const DataKind& kind : {kBoolean, kDense})
    for (const LayerActivation& output : {LayerActivation(SoftMax{}), kSigmoid}) {
      SCOPED_TRACE(kind.name);
      Problem problem;
      problem.network.layers = {input_layer("In", 9),
                                hidden_layer("Wide", 25, {"In"}, Activation(Elu{})),
                                hidden_layer("Narrow", 4, {"Wide"}),
                                hidden_layer("Wide2", 25, {"Narrow"}, kSigmoid),
                                output_layer("Near", 2, {"Wide", "In"}, kSigmoid),
                                output_layer("Far", 6, {"Wide2"}, output)};
      problem.network.layers[3].skips = {"Wide"};
      problem.set_data("In", kind, kExamples, 33);
      problem.set_data("Near", kBoolean, kExamples, 34);
      problem.set_data("Far", kBoolean, kExamples, 35);
      EXPECT_TRUE(engine_agrees(problem, 36));
      problem.network.layers[1].dropout = 0.3f;
      problem.network.layers[2].batch_normalization = true;
      problem.network.layers[4].delta_norm = 0.3f;
      EXPECT_TRUE(engine_agrees(problem, 37));
    }
}

TEST(NetworkGradient, OfSeveralOutputs) {
  for (const LayerActivation& first : {LayerActivation(SoftMax{}), kSigmoid}) {
    Problem problem;
    problem.network.layers = {input_layer("In", 9), hidden_layer("Hidden", 7, {"In"}),
                              output_layer("Near", 8, {"Hidden"}, first),
                              hidden_layer("More", 5, {"Hidden"}),
                              output_layer("Far", 6, {"More", "Hidden"}, kSigmoid)};
    problem.set_data("In", kBoolean, kExamples, 40);
    problem.set_data("Near", kBoolean, kExamples, 41);
    problem.set_data("Far", {.sparse = false, .low = 0.1f}, kExamples, 42);
    EXPECT_TRUE(engine_agrees(problem, 43));
  }
}

TEST(NetworkGradient, OfALayerThatLeadsNowhere) {
  Problem problem = chain();
  problem.network.layers.insert(problem.network.layers.begin() + 2,
                                hidden_layer("Blind", 5, {"Hidden"}));
  give_data(problem, kBoolean, 50);
  const reference::Network network(problem.network, problem.planned_batch, Pass::training,
                                   problem.position);
  std::uint64_t seed = 51;
  const auto parameters = parameters_off_kinks(network, problem.bound(), seed);
  const EngineStep step = engine_step(problem, parameters);
  EXPECT_NEAR(step.cost,
              network.cost(network.forward(parameters, problem.bound()), problem.bound()),
              1e-4 * tolerance_factor());
  EXPECT_TRUE(step.gradient.of("bias")[2].empty()) << "it takes no part";
}

TEST(NetworkGradient, OfATiedAutoencoder) {
  for (const DataKind& kind : {kBoolean, kValued, kDense}) {
    SCOPED_TRACE(kind.name);
    Problem problem;
    problem.network.layers = {input_layer("In", 9), hidden_layer("Hidden", 6, {"In"}),
                              output_layer("Out", 9, {"Hidden"}, SoftMax{})};
    problem.network.layers[2].shared_weights = {{"Hidden", "In", "Hidden", true}};
    give_data(problem, kind, 60);
    EXPECT_TRUE(engine_agrees(problem, 61));
  }
}

TEST(NetworkGradient, OfADeepTiedAutoencoder) {
  Problem problem;
  problem.network.layers = {
      input_layer("In", 9), hidden_layer("Outer", 7, {"In"}), hidden_layer("Inner", 4, {"Outer"}),
      hidden_layer("Mirror", 7, {"Inner"}), output_layer("Out", 9, {"Mirror"}, kSigmoid)};
  problem.network.layers[3].shared_weights = {{"Inner", "Outer", "Inner", true}};
  problem.network.layers[4].shared_weights = {{"Mirror", "In", "Outer", true}};
  give_data(problem, kBoolean, 65);
  EXPECT_TRUE(engine_agrees(problem, 66));
}

TEST(NetworkGradient, OfTwoTowersThatShareTheirWeights) {
  for (const DataKind& kind : {kBoolean, kDense}) {
    SCOPED_TRACE(kind.name);
    Problem problem;
    problem.network.layers = {input_layer("A", 9),
                              input_layer("B", 9),
                              hidden_layer("TowerA", 6, {"A"}),
                              hidden_layer("TowerB", 6, {"B"}),
                              hidden_layer("Joint", 5, {"TowerA", "TowerB"}),
                              output_layer("Out", 8, {"Joint"}, SoftMax{})};
    problem.network.layers[3].shared_weights = {{"B", "A", "TowerA", false}};
    give_data(problem, kind, 70);
    EXPECT_TRUE(engine_agrees(problem, 71));
  }
}

TEST(NetworkGradient, OfDataNarrowerThanTheLayers) {
  for (const LayerActivation& output : {LayerActivation(SoftMax{}), kSigmoid})
    for (const DataKind& input : {kValued, kDense})
      for (const DataKind& target : {kBoolean, DataKind{.sparse = false, .low = 0.1f}}) {
        SCOPED_TRACE(fmt::format("{} to {}", input.name, target.name));
        Problem problem = chain(output);
        problem.set_data("In", input, kExamples, 80, 6);
        problem.set_data("Out", target, kExamples, 81, 4);
        EXPECT_TRUE(engine_agrees(problem, 82));
      }
}

TEST(NetworkGradient, WithNormalisedInputs) {
  for (DataKind kind : {kBoolean, kValued, kDense})
    for (const bool weighted : {false, true}) {
      SCOPED_TRACE(fmt::format("{} weighted {}", kind.name, weighted));
      kind.weighted = weighted;
      Problem problem = chain();
      problem.network.layers[0].normalize = InputNormalization::l2;
      give_data(problem, kind, 90);
      EXPECT_TRUE(engine_agrees(problem, 91));
    }
}

TEST(NetworkGradient, WithWeightedFeatures) {
  for (DataKind kind : {kBoolean, kValued})
    for (const bool weighted : {false, true})
      for (const bool normalised : {false, true})
        for (const float denoising : {0.0f, 0.4f}) {
          SCOPED_TRACE(fmt::format("{} weighted {} normalised {} denoising {}", kind.name, weighted,
                                   normalised, denoising));
          kind.weighted = weighted;
          Problem problem = chain();
          problem.network.denoising = denoising;
          problem.network.layers[0].sparse = true;
          if (normalised) problem.network.layers[0].normalize = InputNormalization::l2;
          problem.weigh_features("In", 92);
          give_data(problem, kind, 93);
          EXPECT_TRUE(engine_agrees(problem, 94));
        }
}

TEST(NetworkGradient, OfAnInputThatIsReadTwiceAndWeightedOnce) {
  Problem problem;
  problem.network.layers = {input_layer("Plain", 9), input_layer("Weighted", 9),
                            hidden_layer("Hidden", 7, {"Weighted"}, kTanh),
                            output_layer("Out", 8, {"Hidden", "Plain"}, kSigmoid)};
  problem.weigh_features("Weighted", 95);
  give_data(problem, kBoolean, 96);
  EXPECT_TRUE(engine_agrees(problem, 97));
}

TEST(NetworkGradient, WithDenoising) {
  for (DataKind kind : {kBoolean, kValued})
    for (const bool weighted : {false, true})
      for (const std::int64_t epoch : {0, 5}) {
        SCOPED_TRACE(fmt::format("{} weighted {} epoch {}", kind.name, weighted, epoch));
        kind.weighted = weighted;
        Problem problem = chain();
        problem.network.denoising = 0.4f;
        problem.network.layers[0].sparse = true;
        problem.position.epoch = epoch;
        give_data(problem, kind, 100);
        EXPECT_TRUE(engine_agrees(problem, 101));
      }
}

TEST(NetworkGradient, WithDropoutOfDenseInputsAndHiddenLayers) {
  Problem problem;
  problem.network.layers = {input_layer("In", 9), hidden_layer("First", 7, {"In"}),
                            hidden_layer("Second", 6, {"First"}, Activation(Selu{})),
                            hidden_layer("Third", 6, {"Second"}, Activation(Linear{})),
                            output_layer("Out", 8, {"Third", "First"}, kSigmoid)};
  for (std::size_t layer = 0; layer < 4; ++layer) problem.network.layers[layer].dropout = 0.3f;
  problem.network.layers[3].skips = {"Second"};
  give_data(problem, kDense, 110);
  EXPECT_TRUE(engine_agrees(problem, 111));
  problem.position.step = 4;
  EXPECT_TRUE(engine_agrees(problem, 111));
}

TEST(NetworkGradient, WithDropoutUnderBatchNormalisation) {
  Problem problem = chain();
  problem.network.layers[1].dropout = 0.3f;
  problem.network.layers[1].batch_normalization = true;
  give_data(problem, kValued, 115);
  EXPECT_TRUE(engine_agrees(problem, 116));
}

TEST(NetworkGradient, WithTheSparsenessPenalty) {
  for (const float dropout : {0.0f, 0.3f})
    for (const bool own : {false, true}) {
      SCOPED_TRACE(fmt::format("dropout {} own {}", dropout, own));
      Problem problem;
      problem.network.layers = {input_layer("In", 9), hidden_layer("First", 7, {"In"}, kSigmoid),
                                hidden_layer("Second", 6, {"First"}, kSigmoid),
                                output_layer("Out", 8, {"Second"}, kSigmoid)};
      problem.network.sparseness = {0.2f, 1.5f};
      problem.network.layers[1].sparse = true;
      problem.network.layers[1].dropout = dropout;
      if (own) problem.network.layers[1].sparseness = SparsenessPenalty{0.6f, 0.7f};
      give_data(problem, kBoolean, 120);
      EXPECT_TRUE(engine_agrees(problem, 121));
    }
}

TEST(NetworkGradient, WithTheSparsenessPenaltyOnASoftMaxLayer) {
  Problem problem = chain();
  problem.network.layers[1].activation = SoftMax{};
  problem.network.layers[1].sparse = true;
  problem.network.sparseness = {0.2f, 1.5f};
  give_data(problem, kBoolean, 125);
  EXPECT_TRUE(engine_agrees(problem, 126));
}

TEST(NetworkGradient, WithDeltaBoost) {
  for (const std::string& name : names_of<Loss>())
    for (DataKind kind :
         {kBoolean, kValued, DataKind{.name = "dense", .sparse = false, .halves = true}})
      for (const LayerActivation& output : {LayerActivation(SoftMax{}), kSigmoid}) {
        SCOPED_TRACE(fmt::format("{} {}", name, kind.name));
        kind.low = 0.1f;
        Problem problem = chain(output);
        problem.network.loss = loss_named(name);
        problem.network.boost_one = 3.0f;
        problem.network.boost_zero = 0.5f;
        give_data(problem, kBoolean, 130, kind);
        EXPECT_TRUE(engine_agrees(problem, 131));
      }
}

// One step that is boosted goes elsewhere than one that is not, whatever the loss of the outputs.
TEST(NetworkGradient, DeltaBoostCountsForEveryLossAndActivation) {
  const auto weights_after_a_step = [](Problem problem, float one, float zero) {
    problem.network.boost_one = one;
    problem.network.boost_zero = zero;
    Engine engine(problem, Pass::training);
    engine.network().initialise(7);
    engine.network().train_step(problem.bound(), {0, 0, 1});
    return engine.get().weight;
  };
  for (const std::string& loss : names_of<Loss>())
    for (const std::string& activation : activation_names()) {
      SCOPED_TRACE(fmt::format("{} {}", loss, activation));
      Problem problem = chain(activation_named(activation));
      problem.network.loss = loss_named(loss);
      give_data(problem, kBoolean, 132);
      const auto plain = weights_after_a_step(problem, 1.0f, 1.0f);
      EXPECT_TRUE(weights_after_a_step(problem, 1.0f, 1.0f) == plain);
      EXPECT_FALSE(weights_after_a_step(problem, 30.0f, 1.0f) == plain) << "one";
      // A zero's slope is 0 under Hinge: only SoftMax gives it a delta.
      const bool has_zeros = loss != Hinge::name || activation == SoftMax::name;
      EXPECT_EQ(weights_after_a_step(problem, 1.0f, 0.1f) == plain, !has_zeros) << "zero";
    }
}

TEST(NetworkGradient, WithACapOnTheDeltasOfAnOutput) {
  for (const LayerActivation& output : {LayerActivation(SoftMax{}), kSigmoid})
    for (const float limit : {0.3f, 0.9f, 100.0f}) {
      SCOPED_TRACE(limit);
      Problem problem = chain(output);
      problem.network.layers[2].delta_norm = limit;
      give_data(problem, kValued, 140);
      EXPECT_TRUE(engine_agrees(problem, 141));
    }
}

// The deltas of the capped layer are clipped by hand; what lies above it must not notice.
TEST(NetworkGradient, WithACapOnTheDeltasOfAHiddenLayer) {
  Problem problem = chain();
  problem.network.layers[1].delta_norm = 0.2f;
  give_data(problem, kValued, 150);
  const BoundBatch batch = problem.bound();
  const reference::Network network(problem.network, problem.planned_batch, Pass::training,
                                   problem.position);
  std::uint64_t seed = 151;
  const auto parameters = parameters_off_kinks(network, batch, seed);
  reference::Parameters expected = expected_gradients(network, parameters, batch);
  const reference::Rows x = network.forward(parameters, batch).output[0];
  reference::Rows delta = network.deltas(parameters, batch, 1);
  std::fill(expected.weight[0].begin(), expected.weight[0].end(), 0.0);
  std::fill(expected.of("bias")[1].begin(), expected.of("bias")[1].end(), 0.0);
  int clipped = 0;
  for (std::size_t b = 0; b < delta.size(); ++b) {
    double squares = 0.0;
    for (double d : delta[b]) squares += d * d;
    const double factor = std::min(1.0, 0.2 / std::sqrt(squares));
    clipped += factor < 1.0;
    for (std::size_t j = 0; j < delta[b].size(); ++j) {
      const double d = factor * delta[b][j] / double(batch.examples);
      expected.of("bias")[1][j] += d;
      for (std::size_t i = 0; i < x[b].size(); ++i)
        expected.weight[0][i * delta[b].size() + j] += x[b][i] * d;
    }
  }
  EXPECT_GT(clipped, 0) << "the case shows nothing";
  const EngineStep step = engine_step(problem, parameters);
  EXPECT_TRUE(gradients_agree(network, expected, parameters, step.gradient));
}

TEST(NetworkGradient, LeavesRunningStatisticsThatFollowTheBatches) {
  Problem problem = chain();
  problem.network.layers[1].batch_normalization = true;
  give_data(problem, kValued, 160);
  const BoundBatch batch = problem.bound();
  const reference::Network network(problem.network, problem.planned_batch, Pass::training,
                                   problem.position);
  const auto parameters = random_parameters(network, 161);
  const reference::Activity activity = network.forward(parameters, batch);
  const EngineStep step = engine_step(problem, parameters);
  const double unbiased = double(kExamples) / double(kExamples - 1);
  for (std::size_t j = 0; j < 7; ++j) {
    EXPECT_NEAR(step.after.of("runningMeanBN")[1][j],
                0.9 * parameters.of("runningMeanBN")[1][j] + 0.1 * activity.batch_mean[1][j], 1e-6);
    EXPECT_NEAR(step.after.of("runningVarianceBN")[1][j],
                0.9 * parameters.of("runningVarianceBN")[1][j] +
                    0.1 * unbiased * activity.batch_variance[1][j],
                1e-6);
  }
}

}  // namespace
}  // namespace norn::test
