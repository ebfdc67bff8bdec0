// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions with as many channels as a GPU's products read where they stand, which
// may apply activation functions and slopes themselves; poolings may, too. Windows of one place:
// differences of so many weights take their time.
#include "tests/gradient/pooling_draw.h"

#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

class Draw : public PoolingDraw {
 public:
  using PoolingDraw::PoolingDraw;

  LayerDescriptor wide(const std::string& name, const std::string& source, const Activation& f) {
    LayerDescriptor layer = hidden_layer(name, coin() ? 32 : 40, {source}, f);
    layer.type = LayerType::convolutional;
    layer.kernel_dimensions = 2;
    layer.stride[1] = upto(2);
    if (upto(4) == 1) layer.dropout = 0.3f;
    return layer;
  }
  LayerDescriptor smooth_pooling(const std::string& name, const std::string& source) {
    if (coin()) return pooling_layer(name, PoolingFunction::lrn, {source});
    return windows(pooling_layer(name, PoolingFunction::average, {source}), 2);
  }
};

TEST(WideConvolutionGradient, AgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 3; ++i) {
    Draw draw(seed + i);
    Problem problem;
    LayerDescriptor image = input_layer("In", 1);
    image.extent = {draw.upto(2), draw.upto(2), 32, 1};
    image.dimensions = 3;
    // One layer alone bends at 0, as among more units some would always be there; and not with many
    // zeros, of which the largest is any.
    const bool bends = draw.coin();
    const Activation smooth = draw.coin() ? Activation(Linear{}) : Activation(Tanh{});
    const Activation leaky = LeakyRelu{0.3f};
    const LayerDescriptor first = draw.wide("First", "In",
                                            !bends        ? smooth
                                            : draw.coin() ? leaky
                                                          : Activation(Relu{}));
    const LayerDescriptor second = draw.wide("Second", "First", bends ? smooth : leaky);
    const LayerDescriptor pool = draw.smooth_pooling("Pool", "Second");
    problem.network.lrn = draw.lrn();
    problem.network.layers = {image,
                              first,
                              second,
                              pool,
                              hidden_layer("Full", draw.upto(5), {"Pool"}),
                              output_layer("Out", 1 + draw.upto(5), {"Full"}, SoftMax{})};
    const Index examples = 1 + draw.upto(3);
    problem.planned_batch = examples + draw.upto(2);
    SCOPED_TRACE(testing::Message() << "case " << i << ", " << examples << " examples");
    problem.set_data("In", {.sparse = false}, examples, seed + i);
    problem.set_data("Out", {}, examples, seed + i + 1);
    EXPECT_TRUE(engine_agrees(problem, seed + i, {.gradient = 5e-4, .cancelled = 1e-6}));
  }
}

}  // namespace
}  // namespace norn::test
