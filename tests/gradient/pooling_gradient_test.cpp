// SPDX-License-Identifier: Apache-2.0
// Cost and gradients of networks with Pooling layers of layers by unit.
#include "tests/gradient/pooling_draw.h"

#include <random>

namespace norn::test {
namespace {

// Two towers: what fully connected layers say is joined, unit by unit or as a whole.
TEST(PoolingGradient, OfLayersByUnitAgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    PoolingDraw draw(seed + i);
    const Index units = draw.upto(30);
    Problem problem;
    LayerDescriptor joined = pooling_layer("Joined", draw.joining(), {"Left", "Right"});
    if (draw.coin()) joined.sources.emplace_back("Third");
    problem.network.layers = {draw.image(1),
                              hidden_layer("Left", units, {"In"}),
                              hidden_layer("Right", units, {"In"}, Activation(Tanh{})),
                              hidden_layer("Third", units, {"Right"}, Activation(Tanh{})),
                              joined,
                              hidden_layer("Full", draw.upto(9), {"Joined", "Third"}),
                              output_layer("Out", 1 + draw.upto(7), {"Full"}, SoftMax{})};
    SCOPED_TRACE(testing::Message() << "case " << i << ", " << units << " units");
    EXPECT_TRUE(agrees(problem, draw, seed + i));
  }
}

}  // namespace
}  // namespace norn::test
