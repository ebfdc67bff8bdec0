// SPDX-License-Identifier: Apache-2.0
// Cost and gradients of networks with Pooling layers of every function, behind data, convolutions,
// other poolings and layers by unit.
#include "tests/gradient/window_draw.h"
#include "tests/support/gradient_check.h"

#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

class Draw : public WindowDraw {
 public:
  using WindowDraw::WindowDraw;

  LayerDescriptor convolution(const std::string& name, int axes, std::vector<std::string> sources) {
    LayerDescriptor layer =
        hidden_layer(name, upto(6), std::move(sources), LayerActivation(Activation(Tanh{})));
    layer.type = LayerType::convolutional;
    return windows(layer, axes);
  }
  LayerDescriptor windowed_pooling(const std::string& name, int axes,
                                   std::vector<std::string> sources) {
    const PoolingFunction function = coin()   ? PoolingFunction::max
                                     : coin() ? PoolingFunction::average
                                              : PoolingFunction::lrn;
    const LayerDescriptor layer = pooling_layer(name, function, std::move(sources));
    return function == PoolingFunction::lrn ? layer : windows(layer, int(upto(axes)));
  }
  PoolingFunction joining() {
    return coin()   ? PoolingFunction::maxout
           : coin() ? PoolingFunction::cosine
                    : PoolingFunction::dot_product;
  }
  LocalResponseNormalization lrn() {
    return {float(upto(3)), int(upto(6)), 0.1f * float(upto(20)), 0.25f * float(upto(4))};
  }
};

testing::AssertionResult agrees(Problem problem, Draw& draw, std::uint64_t seed) {
  const Index examples = 1 + draw.upto(11);
  problem.planned_batch = examples + draw.upto(5);
  problem.set_data("In", {.sparse = false}, examples, seed);
  problem.set_data("Out", {}, examples, seed + 1);
  return engine_agrees(problem, seed, {.gradient = 5e-4, .cancelled = 1e-6});
}

// Of data and of convolutions, and under both.
TEST(PoolingGradient, OfWindowsAgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    Draw draw(seed + i);
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
TEST(PoolingGradient, OfSeveralConvolutionsAgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    Draw draw(seed + i);
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

// Two towers: what fully connected layers say is joined, unit by unit or as a whole.
TEST(PoolingGradient, OfLayersByUnitAgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    Draw draw(seed + i);
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
