// SPDX-License-Identifier: Apache-2.0
// Cost and gradients of networks with Convolutional layers, of windows drawn at random.
#include "tests/support/gradient_check.h"

#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  Index upto(Index most) { return Index(1 + random_() % std::uint64_t(most)); }
  bool coin() { return random_() % 2 == 0; }

  LayerDescriptor image(int axes) {
    LayerDescriptor layer = input_layer("In", 1);
    layer.extent = {1, 1, 1, 1};
    for (int a = 0; a < axes; ++a) layer.extent[std::size_t(a)] = upto(9);
    layer.extent[std::size_t(axes)] = upto(5);
    layer.dimensions = axes + 1;
    return layer;
  }
  LayerDescriptor convolution(const std::string& name, int axes, bool keeps_size,
                              std::vector<std::string> sources) {
    LayerDescriptor layer = hidden_layer(
        name, 2 * upto(4) - 1, std::move(sources),
        coin() ? LayerActivation(Activation(Tanh{})) : LayerActivation(Activation(Sigmoid{})));
    layer.type = LayerType::convolutional;
    layer.kernel_dimensions = axes;
    for (int a = 0; a < axes; ++a) {
      layer.stride[std::size_t(a)] = keeps_size || coin() ? 1 : 1 + upto(3);
      const bool same = layer.stride[std::size_t(a)] == 1;
      layer.kernel[std::size_t(a)] = same ? 2 * upto(3) - 1 : upto(5);
    }
    if (coin()) layer.dropout = 0.3f;
    return layer;
  }

 private:
  std::mt19937_64 random_;
};

TEST(ConvolutionGradient, AgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    Draw draw(seed + i);
    const int axes = int(draw.upto(2));  // sizes of data sets have three
    Problem problem;
    problem.network.layers = {draw.image(axes), draw.convolution("First", axes, false, {"In"}),
                              draw.convolution("Second", axes, false, {"First"}),
                              hidden_layer("Full", draw.upto(9), {"Second", "First"}),
                              output_layer("Out", 1 + draw.upto(7), {"Full"}, SoftMax{})};
    const Index examples = 1 + draw.upto(11);
    problem.planned_batch = examples + draw.upto(5);
    SCOPED_TRACE(testing::Message()
                 << "case " << i << ", " << axes << " axes, " << examples << " examples");
    problem.set_data("In", {.sparse = false}, examples, seed + i);
    problem.set_data("Out", {}, examples, seed + i + 1);
    // The gradient of a filter's bias is what hundreds of places leave of each other.
    EXPECT_TRUE(engine_agrees(problem, seed + i, {.gradient = 5e-4}));
  }
}

}  // namespace
}  // namespace norn::test
