// SPDX-License-Identifier: Apache-2.0
// A SoftMax layer keeps its pre-activations between its passes when they are few, and computes them
// again when they are many: the bits are the same.
#include "tests/support/problem.h"

#include <gtest/gtest.h>

namespace norn::test {
namespace {

// 70,000 units: 239 examples of them are kept (below 2^24 elements), 240 are not.
constexpr Index kOutputs = 70000;
constexpr Index kFewest = 239;
// One width of blocks for both.
constexpr BlockRule kBlocks = {1, 4096, 4096, 16, 1};

struct Trained {
  double cost = 0.0;
  reference::Parameters parameters;
};

Trained train_planned_for(Problem problem, Index planned) {
  problem.planned_batch = planned;
  Engine engine(problem, Pass::training, 2, kBlocks);
  engine.network().initialise(3);
  Trained trained;
  for (std::int64_t step = 0; step < 2; ++step)
    trained.cost = engine.network().train_step(problem.bound(), {step, 0, 1}).value();
  trained.parameters = engine.get();
  return trained;
}

TEST(KeptOutputs, TrainAsRecomputedOnesDo) {
  for (const Loss& loss : {Loss(CrossEntropy{}), Loss(SquaredError{})}) {
    Problem problem;
    problem.network.loss = loss;
    problem.network.training.rate = 1.0f;
    problem.network.layers = {input_layer("In", 20), hidden_layer("Hidden", 3, {"In"}),
                              output_layer("Out", kOutputs, {"Hidden"}, SoftMax{})};
    problem.set_data("In", {}, 8, 1);
    problem.set_data("Out", {.labels = true}, 8, 2);
    const Trained kept = train_planned_for(problem, kFewest);
    const Trained recomputed = train_planned_for(problem, kFewest + 1);
    EXPECT_EQ(kept.cost, recomputed.cost);
    EXPECT_TRUE(kept.parameters.weight == recomputed.parameters.weight);
    EXPECT_TRUE(kept.parameters.unit == recomputed.parameters.unit);
  }
}

}  // namespace
}  // namespace norn::test
