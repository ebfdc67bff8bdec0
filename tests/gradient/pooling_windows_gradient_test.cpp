// SPDX-License-Identifier: Apache-2.0
// Cost and gradients of networks with Pooling layers of every function, behind data, convolutions
// and other poolings.
#include "tests/gradient/pooling_draw.h"

#include <random>

namespace norn::test {
namespace {

// Of data and of convolutions, and under both.
TEST(PoolingWindowsGradient, OfWindowsAgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    PoolingDraw draw(seed + i);
    const int axes = int(draw.upto(3));
    Problem problem;
    problem.network.lrn = draw.lrn();
    std::vector<std::string> last = {"Second"};
    if (draw.coin()) last.push_back("Conv");
    problem.network.layers = {draw.image(axes),
                              draw.windowed_pooling("First", axes, {"In"}),
                              draw.convolution("Conv", axes, {"First"}),
                              draw.windowed_pooling("Second", axes, {"Conv"}),
                              hidden_layer("Full", draw.upto(9), last),
                              output_layer("Out", 1 + draw.upto(7), {"Full"}, SoftMax{})};
    SCOPED_TRACE(testing::Message() << "case " << i << ", " << axes << " axes");
    EXPECT_TRUE(agrees(problem, draw, seed + i));
  }
}

// Sources of one size are joined: convolutions and their poolings, each by example and gathered.
TEST(PoolingWindowsGradient, OfSeveralConvolutionsAgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    PoolingDraw draw(seed + i);
    const int axes = int(draw.upto(3));
    Problem problem;
    LayerDescriptor first = draw.convolution("First", axes, {"In"}), second = first;
    second.name = "Second";
    LayerDescriptor third = second;
    third.name = "Third";
    LayerDescriptor joined = pooling_layer("Joined", draw.joining(), {"First", "Second"});
    if (draw.coin()) joined.sources.emplace_back("Third");
    const LayerDescriptor added =
        pooling_layer("Added", PoolingFunction::average, {"Third", "First"});
    problem.network.layers = {draw.image(axes),
                              first,
                              second,
                              third,
                              joined,
                              draw.windows(added, axes),
                              hidden_layer("Full", draw.upto(9), {"Joined", "Added"}),
                              output_layer("Out", 1 + draw.upto(7), {"Full"}, SoftMax{})};
    SCOPED_TRACE(testing::Message() << "case " << i << ", " << axes << " axes");
    EXPECT_TRUE(agrees(problem, draw, seed + i));
  }
}

}  // namespace
}  // namespace norn::test
