// SPDX-License-Identifier: Apache-2.0
// The gradient check of users' networks: right gradients pass, deltas that are no slopes do not.
#include "src/engine/train/gradient_check.h"

#include "norn/base/error.h"
#include "tests/support/problem.h"
#include "tests/support/test_runtime.h"

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

Counts check(const NetworkDescriptor& network, Index most) {
  test::Problem problem;
  problem.network = network;
  problem.planned_batch = 9;
  problem.set_data("Input", {}, 9, 5);
  problem.set_data("Output", {}, 9, 6);
  test::Engine engine(problem, Pass::training);
  engine.network().initialise(3);
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
