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

  LayerDescriptor wide(const std::string& name, const std::string& source) {
    const LayerActivation f = coin()   ? Activation(LeakyRelu{0.3f})
                              : coin() ? Activation(Relu{})
                                       : Activation(Tanh{});
    LayerDescriptor layer = hidden_layer(name, coin() ? 32 : 40, {source}, f);
    layer.type = LayerType::convolutional;
    layer.kernel_dimensions = 2;
    layer.stride[1] = upto(2);
    if (upto(4) == 1) layer.dropout = 0.3f;
    return layer;
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
    const LayerDescriptor first = draw.wide("First", "In"), second = draw.wide("Second", "First");
    LayerDescriptor pool = draw.windowed_pooling("Pool", 2, {"Second"});
    problem.network.lrn = draw.lrn();
    problem.network.layers = {image,
                              first,
                              second,
                              pool,
                              hidden_layer("Full", draw.upto(5), {"Pool"}),
                              output_layer("Out", 1 + draw.upto(5), {"Full"}, SoftMax{})};
    SCOPED_TRACE(testing::Message() << "case " << i);
    EXPECT_TRUE(agrees(std::move(problem), draw, seed + i));
  }
}

}  // namespace
}  // namespace norn::test
