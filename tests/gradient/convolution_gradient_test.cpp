// SPDX-License-Identifier: Apache-2.0
// Cost and gradients of networks with Convolutional layers, of windows drawn at random.
#include "tests/gradient/window_draw.h"
#include "tests/support/gradient_check.h"
#include "tests/support/recipes.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

// The gradient of a filter's bias is what hundreds of places leave of each other, that of a unit in
// front of few outputs what two examples do.
constexpr Tolerance kTolerance = {.gradient = 5e-4, .cancelled = 1e-6};

class Draw : public WindowDraw {
 public:
  using WindowDraw::WindowDraw;

  LayerDescriptor convolution(const std::string& name, int axes, std::vector<std::string> sources) {
    LayerDescriptor layer = hidden_layer(
        name, 2 * upto(3) - 1, std::move(sources),
        coin() ? LayerActivation(Activation(Tanh{})) : LayerActivation(Activation(Sigmoid{})));
    layer.type = LayerType::convolutional;
    if (coin()) layer.dropout = 0.3f;
    return windows(layer, axes);
  }
  // One that gives as many places as it reads.
  LayerDescriptor convolution_of(const LayerDescriptor& source, const std::string& name,
                                 const std::string& first, Index channels) {
    LayerDescriptor layer = convolution(name, source.dimensions - 1, {first});
    layer.extent[0] = channels;
    for (int a = 0; a < layer.kernel_dimensions; ++a) {
      layer.stride[std::size_t(a)] = 1;
      layer.kernel[std::size_t(a)] =
          2 * upto(std::max<Index>(1, source.extent[std::size_t(a)] / 2)) - 1;
    }
    return layer;
  }
};

TEST(ConvolutionGradient, AgreesWithFloat64) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 20; ++i) {
    Draw draw(seed + i);
    const int axes = int(draw.upto(3));
    Problem problem;
    problem.network.layers = {draw.image(axes), draw.convolution("First", axes, {"In"}),
                              draw.convolution("Second", axes, {"First"}),
                              hidden_layer("Full", draw.upto(9), {"Second", "First"}),
                              output_layer("Out", 1 + draw.upto(7), {"Full"}, SoftMax{})};
    const Index examples = 1 + draw.upto(11);
    problem.planned_batch = examples + draw.upto(5);
    SCOPED_TRACE(testing::Message()
                 << "case " << i << ", " << axes << " axes, " << examples << " examples");
    problem.set_data("In", {.sparse = false}, examples, seed + i);
    problem.set_data("Out", {}, examples, seed + i + 1);
    EXPECT_TRUE(engine_agrees(problem, seed + i, kTolerance));
  }
}

// What is added up, also as it is, and normalised by channel.
TEST(ConvolutionGradient, AgreesWithSkipsSeveralSourcesAndNormalisation) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 6; ++i) {
    Draw draw(seed + i);
    const int axes = int(draw.upto(3));
    Problem problem;
    const LayerDescriptor image = draw.image(axes);
    const Index channels = draw.upto(4);
    LayerDescriptor first = draw.convolution_of(image, "First", "In", channels);
    LayerDescriptor second = draw.convolution_of(image, "Second", "First", channels);
    LayerDescriptor third = draw.convolution_of(image, "Third", "Second", channels);
    second.skips = {"First"};
    third.skips = {"First", "Second"};
    first.batch_normalization = draw.coin();
    second.batch_normalization = draw.coin();
    problem.network.layers = {image,
                              first,
                              second,
                              third,
                              draw.convolution("Both", axes, {"In", "Third", "First"}),
                              hidden_layer("Full", draw.upto(9), {"Both", "Second"}),
                              output_layer("Out", 1 + draw.upto(7), {"Full"}, SoftMax{})};
    const Index examples = 5 + draw.upto(7);
    problem.planned_batch = examples + draw.upto(5);
    SCOPED_TRACE(testing::Message()
                 << "case " << i << ", " << axes << " axes, " << examples << " examples");
    problem.set_data("In", {.sparse = false}, examples, seed + i);
    problem.set_data("Out", {}, examples, seed + i + 1);
    // Before batch normalisation a bias has no gradient, and a filter none along itself.
    EXPECT_TRUE(engine_agrees(problem, seed + i, {.gradient = 3e-3, .cancelled = 2e-5}));
  }
}

// Filters of several layers, over images and behind each other: the mean over their users.
TEST(ConvolutionGradient, AgreesWithSharedFilters) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (std::uint64_t i = 0; i < 8; ++i) {
    Draw draw(seed + i);
    const int axes = int(draw.upto(3));
    Problem problem;
    const LayerDescriptor image = draw.image(axes);
    const Index channels = image.extent[std::size_t(axes)];
    const auto user = [&](const std::string& name, const std::string& source) {
      LayerDescriptor layer = draw.convolution(name, axes, {source});
      layer.extent[0] = channels;
      return layer;
    };
    LayerDescriptor first = user("First", "In");
    LayerDescriptor second = user("Second", "First");
    LayerDescriptor third = user("Third", "In");
    second.kernel = third.kernel = first.kernel;
    second.stride = first.stride;  // an even kernel needs one
    for (int a = 0; a < axes; ++a)
      third.stride[std::size_t(a)] = first.stride[std::size_t(a)] + draw.upto(2) - 1;
    second.shared_weights = {{"First", "In", "First", false}};
    third.shared_weights = {{"In", "In", "First", false}};
    problem.network.layers = {image,
                              first,
                              second,
                              third,
                              hidden_layer("Full", draw.upto(9), {"Second", "Third", "First"}),
                              output_layer("Out", 1 + draw.upto(7), {"Full"}, SoftMax{})};
    const Index examples = 1 + draw.upto(11);
    problem.planned_batch = examples + draw.upto(5);
    SCOPED_TRACE(testing::Message()
                 << "case " << i << ", " << axes << " axes, " << examples << " examples");
    problem.set_data("In", {.sparse = false}, examples, seed + i);
    problem.set_data("Out", {}, examples, seed + i + 1);
    EXPECT_TRUE(engine_agrees(problem, seed + i, kTolerance));
  }
}

TEST(ConvolutionWeightNorm, CapsEachFilter) {
  constexpr double limit = 1.1;
  Problem problem;
  problem.network = convolution_recipe().network;
  for (LayerDescriptor& layer : problem.network.layers) layer.weight_norm = layer.dropout = 0.0f;
  problem.planned_batch = 6;
  problem.set_data("In", {.sparse = false}, 6, 1);
  problem.set_data("Out", {}, 6, 2);
  Problem capped = problem;
  capped.network.layers[1].weight_norm = float(limit);
  const reference::Network network(problem.network, problem.planned_batch, Pass::training);
  const auto parameters = random_parameters(network, 9);
  const std::vector<double> free = engine_step(problem, parameters).after.weight[0];
  const std::vector<double> held = engine_step(capped, parameters).after.weight[0];
  ASSERT_EQ(free.size(), 5u * 27u);
  int shortened = 0;
  for (std::size_t filter = 0; filter < free.size(); filter += 27) {
    double squares = 0.0;
    for (std::size_t i = filter; i < filter + 27; ++i) squares += free[i] * free[i];
    const double factor = std::min(1.0, limit / std::sqrt(squares));
    shortened += factor < 1.0 ? 1 : 0;
    for (std::size_t i = filter; i < filter + 27; ++i) EXPECT_NEAR(held[i], factor * free[i], 1e-6);
  }
  EXPECT_GT(shortened, 0);
}

}  // namespace
}  // namespace norn::test
