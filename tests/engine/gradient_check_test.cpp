// SPDX-License-Identifier: Apache-2.0
// The gradient check of users' networks: right gradients pass, deltas that are no slopes do not.
#include "src/engine/train/gradient_check.h"

#include "norn/base/error.h"
#include "tests/support/problem.h"
#include "tests/support/recipes.h"
#include "tests/support/test_runtime.h"

#include <random>

#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::ElementsAre;

struct Counts {
  Index checked = 0;
  Index wrong = 0;
  double largest = 0.0;
};

NetworkDescriptor autoencoder(const LayerActivation& hidden) {
  NetworkDescriptor network;
  network.layers = {test::input_layer("Input", 40),
                    test::hidden_layer("Hidden", 6, {"Input"}, hidden),
                    test::output_layer("Output", 40, {"Hidden"})};
  return network;
}

Counts check(const NetworkDescriptor& network, Index most, const test::DataKind& inputs = {},
             std::uint64_t seed = 3) {
  test::Problem problem;
  problem.network = network;
  problem.planned_batch = 9;
  problem.set_data("Input", inputs, 9, seed + 2);
  problem.set_data("Output", {}, 9, seed + 3);
  test::Engine engine(problem, Pass::training);
  engine.network().initialise(seed);
  const auto before = engine.get();
  Counts counts;
  for (const CheckedGroup& group : check_gradients(engine.network(), problem.bound(), most, 1)) {
    counts.checked += group.checked;
    counts.wrong += group.wrong;
    counts.largest = std::max(counts.largest, group.largest);
    EXPECT_LE(group.checked, std::min(most, group.parameters)) << group.name;
  }
  const auto after = engine.get();
  EXPECT_EQ(before.weight, after.weight);
  EXPECT_EQ(before.unit, after.unit);
  return counts;
}

// It reads parameters where they stand, and so does the program: on the CPU.
bool is_on_gpu() {
  const auto runtime = test::make_test_runtime(1);
  const auto communicator = make_single_process();
  return !runtime->context(*communicator).compute.memory.is_host();
}

TEST(GradientCheck, GradientsOfPreparedNetworksAreSlopes) {
  if (is_on_gpu()) GTEST_SKIP() << "parameters are not in main memory";
  for (const LayerActivation& hidden :
       {LayerActivation(Activation(Sigmoid{})), LayerActivation(Activation(Relu{})),
        LayerActivation(Activation(Tanh{}))}) {
    NetworkDescriptor network = autoencoder(hidden);
    network.layers[1].dropout = 0.5f;
    network.boost_one = 3.0f;
    network.layers[0].augment.flip = true;
    EXPECT_THAT(
        prepare_gradient_check(network),
        ElementsAre("DeltaBoost one", network.layers[0].name + ": Augment", "Hidden: pDropout"));
    EXPECT_FALSE(network.layers[0].augment.is_on());
    const Counts counts = check(network, 1000);
    EXPECT_EQ(counts.checked, 40 * 6 * 2 + 6 + 40);
    EXPECT_EQ(counts.wrong, 0);
    EXPECT_GT(counts.largest, 1e-3);
    EXPECT_EQ(check(network, 20).checked, 20 + 20 + 6 + 20);
  }
}

// Of the cost, which has a kink wherever another unit becomes the largest.
TEST(GradientCheck, GradientsOfManyMaximaAreSlopes) {
  if (is_on_gpu()) GTEST_SKIP() << "parameters are not in main memory";
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 4; ++i) {
    NetworkDescriptor network;
    LayerDescriptor image = test::input_layer("Input", 1);
    image.extent = {6, 5, 3, 1};
    image.dimensions = 3;
    network.layers = {image,
                      test::convolution("First", 4, 3, 1, {"Input"}),
                      test::convolution("Second", 4, 3, 1, {"Input"}),
                      test::pooling_layer("Larger", PoolingFunction::maxout, {"First", "Second"}),
                      test::pooling("Largest", PoolingFunction::max, 2, 2, {"Larger"}),
                      test::hidden_layer("Full", 5, {"Largest"}),
                      test::output_layer("Output", 4, {"Full"}, SoftMax{})};
    prepare_gradient_check(network);
    EXPECT_EQ(check(network, 200, {.sparse = false}, seed + i).wrong, 0) << i;
  }
}

// The step of V U itself, and what it sends to the layer before.
TEST(GradientCheck, FactoredStepsFollowSlopes) {
  if (is_on_gpu()) GTEST_SKIP() << "parameters are not in main memory";
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 6; ++i) {
    NetworkDescriptor network = autoencoder(Activation(Tanh{}));
    network.loss = SquaredError{};
    network.layers[2].activation = Activation(Linear{});
    network.layers[2].factored.rule = i % 2 == 0 ? FactoredRule::newton : FactoredRule::sgd;
    const std::vector<std::string> left_out = prepare_gradient_check(network);
    if (i % 2 == 0)
      EXPECT_THAT(left_out, ElementsAre("Output: the Rule of Factored"));
    else
      EXPECT_THAT(left_out, testing::IsEmpty());
    EXPECT_TRUE(network.layers[2].factored.is_on());
    const Counts counts = check(network, 1000, {}, seed + i);
    EXPECT_EQ(counts.checked, 40 * 6 * 2 + 6 + 40);
    EXPECT_EQ(counts.wrong, 0);
    EXPECT_GT(counts.largest, 1e-3);
    network.boost_one = 3.0f;  // deltas are no slopes then
    EXPECT_GT(check(network, 1000, {}, seed + i).wrong, 50);
  }
}

TEST(GradientCheck, FindsDeltasThatAreNoSlopes) {
  if (is_on_gpu()) GTEST_SKIP() << "parameters are not in main memory";
  NetworkDescriptor network = autoencoder(Activation(Sigmoid{}));
  prepare_gradient_check(network);
  network.boost_one = 3.0f;
  EXPECT_GT(check(network, 1000).wrong, 50);
}

TEST(GradientCheck, RefusesBatchNormalization) {
  NetworkDescriptor network = autoencoder(Activation(Sigmoid{}));
  network.layers[1].batch_normalization = true;
  try {
    prepare_gradient_check(network);
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "layer \"Hidden\": the gradients of BatchNormalization cannot be compared with "
        "differences of the cost, which is computed with running statistics; leave it out");
  }
}

}  // namespace
}  // namespace norn
