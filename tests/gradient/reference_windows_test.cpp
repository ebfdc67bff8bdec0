// SPDX-License-Identifier: Apache-2.0
// The float64 reference of convolution and pooling against numbers worked out by hand, and its
// sizes against the graph's.
#include "tests/support/reference_windows.h"

#include "src/nn/graph.h"
#include "tests/support/problem.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>

namespace norn::test {
namespace {

using reference::convolve;
using reference::infer_size;
using reference::pool;
using reference::Row;
using reference::weight_count;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

LayerDescriptor image(std::array<Index, 4> extent, int dimensions, const std::string& name = "In") {
  LayerDescriptor layer = input_layer(name, 1);
  layer.extent = extent;
  layer.dimensions = dimensions;
  return layer;
}

LayerDescriptor convolution(Index channels, std::array<Index, 3> kernel, int axes,
                            std::array<Index, 3> stride = {1, 1, 1}) {
  LayerDescriptor layer = hidden_layer("Conv", channels, {"In"});
  layer.type = LayerType::convolutional;
  layer.kernel = kernel;
  layer.kernel_dimensions = axes;
  layer.stride = stride;
  return layer;
}

LayerDescriptor pooling(PoolingFunction function, std::array<Index, 3> kernel = {1, 1, 1},
                        int axes = 0, std::array<Index, 3> stride = {1, 1, 1}) {
  LayerDescriptor layer = convolution(1, kernel, axes, stride);
  layer.type = LayerType::pooling;
  layer.activation = Activation(Linear{});
  layer.function = function;
  return layer;
}

Row convolved(LayerDescriptor layer, const LayerDescriptor& source, const Row& w, const Row& x) {
  infer_size(layer, {&source});
  EXPECT_EQ(w.size(), weight_count(layer, source));
  Row z(std::size_t(layer.units()), 0.0);
  convolve(layer, source, w, x, z);
  return z;
}

Row pooled(LayerDescriptor layer, const LayerDescriptor& source, const std::vector<Row>& x,
           const LocalResponseNormalization& lrn = {}) {
  const std::vector<const LayerDescriptor*> sources(x.size(), &source);
  infer_size(layer, sources);
  std::vector<const Row*> rows;
  for (const Row& row : x) rows.push_back(&row);
  return pool(layer, lrn, sources, rows);
}

TEST(ReferenceWindows, ConvolutionIsACrossCorrelation) {
  const LayerDescriptor line = image({4, 1, 1, 1}, 2);
  EXPECT_THAT(convolved(convolution(1, {3, 1, 1}, 1), line, {10, 1, 100}, {1, 2, 3, 4}),
              ElementsAre(201, 312, 423, 34));
  // Windows of stride 2 stay inside; one that is wider than its source is padded in front by 1.
  EXPECT_THAT(convolved(convolution(1, {3, 1, 1}, 1, {2, 1, 1}), line, {10, 1, 100}, {1, 2, 3, 4}),
              ElementsAre(312));
  EXPECT_THAT(convolved(convolution(1, {5, 1, 1}, 1), line, {7, 10, 1, 100, 1000}, {1, 2, 3, 4}),
              ElementsAre(10 + 2 + 300 + 4000));
}

TEST(ReferenceWindows, FiltersAreOfChannelsThenOfRows) {
  // Two channels of 2 x 2 (x fastest), two filters of 2 x 1 (x) with stride 2.
  const LayerDescriptor source = image({2, 2, 2, 1}, 3);
  const Row x = {1, 2, 3, 4, 5, 6, 7, 8};
  const Row w = {1, 10, 100, 1000, -1, 0, 0, 1};  // [filter][channel][x]
  EXPECT_THAT(convolved(convolution(2, {2, 1, 1}, 2, {2, 1, 1}), source, w, x),
              ElementsAre(1 + 20 + 500 + 6000, 3 + 40 + 700 + 8000, -1 + 6, -3 + 8));
}

TEST(ReferenceWindows, PoolingOfWindows) {
  const LayerDescriptor source = image({4, 1, 2, 1}, 3);
  const Row x = {3, -1, 4, 1, -5, -9, -2, -6};
  EXPECT_THAT(pooled(pooling(PoolingFunction::max, {2, 1, 1}, 2, {2, 1, 1}), source, {x}),
              ElementsAre(3, 4, -5, -2));
  // Padding is neither a maximum of negative units nor counted in a mean.
  EXPECT_THAT(pooled(pooling(PoolingFunction::max, {3, 1, 1}, 2), source, {x}),
              ElementsAre(3, 4, 4, 4, -5, -2, -2, -2));
  EXPECT_THAT(
      pooled(pooling(PoolingFunction::average, {3, 1, 1}, 2), source, {x}),
      Pointwise(DoubleNear(1e-12), {1.0, 2.0, 4.0 / 3, 2.5, -7.0, -16.0 / 3, -17.0 / 3, -4.0}));
  EXPECT_THAT(pooled(pooling(PoolingFunction::max, {2, 1, 1}, 2, {2, 1, 1}), source, {x, x}),
              ElementsAre(6, 8, -10, -4));
}

TEST(ReferenceWindows, LocalResponseNormalisationLooksBehindOneLess) {
  const LayerDescriptor source = image({1, 1, 4, 1}, 3);
  const LocalResponseNormalization lrn{.k = 2.0f, .n = 2, .alpha = 4.0f, .beta = 0.5f};
  const auto f = [](double x, double squares) { return x / std::sqrt(2.0 + 2.0 * squares); };
  EXPECT_THAT(pooled(pooling(PoolingFunction::lrn), source, {{1, 2, 3, 4}}, lrn),
              Pointwise(DoubleNear(1e-12), {f(1, 5), f(2, 13), f(3, 25), f(4, 16)}));
}

TEST(ReferenceWindows, FunctionsOfSeveralSources) {
  const LayerDescriptor source = image({2, 1, 1, 1}, 1);
  const std::vector<Row> x = {{3, 4}, {0, 5}, {-6, -8}};
  EXPECT_THAT(pooled(pooling(PoolingFunction::maxout), source, x), ElementsAre(3, 5));
  EXPECT_THAT(pooled(pooling(PoolingFunction::dot_product), source, x), ElementsAre(20, -50));
  EXPECT_THAT(pooled(pooling(PoolingFunction::cosine), source, x),
              Pointwise(DoubleNear(1e-7), {0.8, -1.0}));
}

TEST(ReferenceWindows, SizesAreThoseOfTheGraph) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](Index most) { return Index(1 + random() % std::uint64_t(most)); };
  for (int i = 0; i < 200; ++i) {
    const int axes = int(draw(3));
    NetworkDescriptor network;
    network.layers = {image({draw(19), draw(19), draw(19), draw(19)}, axes + 1)};
    for (std::size_t a = std::size_t(axes) + 1; a < 4; ++a) network.layers[0].extent[a] = 1;
    std::array<Index, 3> kernel = {1, 1, 1}, stride = {1, 1, 1};
    for (std::size_t a = 0; a < std::size_t(axes); ++a) {
      kernel[a] = 2 * draw(5) - 1;
      stride[a] = draw(4);
    }
    network.layers.push_back(convolution(draw(7), kernel, axes, stride));
    network.layers.push_back(pooling(PoolingFunction::max, kernel, axes, stride));
    network.layers[2].name = "Pool";
    network.layers[2].sources = {"Conv"};
    network.layers.push_back(output_layer("Out", 3, {"Pool"}));
    const reference::Network reference(network, 7, Pass::prediction);
    const Graph graph = make_graph(network, {}, "random");
    for (std::size_t l = 0; l < 4; ++l) {
      EXPECT_EQ(reference.descriptor().layers[l].extent, graph.network.layers[l].extent);
      EXPECT_EQ(reference.descriptor().layers[l].dimensions, graph.network.layers[l].dimensions);
    }
    EXPECT_EQ(weight_count(reference.descriptor().layers[1], reference.descriptor().layers[0]),
              std::size_t(matrix_of(graph, 0).size()));
  }
}

// Channels have mean 0 and variance 1, behind a bias each, over all places of all examples.
TEST(ReferenceWindows, BatchNormalisationIsOfChannels) {
  Problem problem;
  problem.network.layers = {image({5, 4, 2, 1}, 3), convolution(3, {3, 3, 1}, 2),
                            output_layer("Out", 4, {"Conv"})};
  problem.network.layers[1].batch_normalization = true;
  problem.set_data("In", {.sparse = false}, 6, 5);
  problem.set_data("Out", {}, 6, 6);
  const reference::Network network(problem.network, problem.planned_batch, Pass::training);
  reference::Parameters p;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  p.weight = {Row(3 * 2 * 9), Row(60 * 4)};
  for (Row& row : p.weight)
    for (double& w : row) w = normal(random);
  p.of("bias") = {{}, {1, 2, 3}, {0, 0, 0, 0}};
  p.of("scaleBN") = {{}, {1, 1, 1}, {}};
  p.of("biasBN") = {{}, {0, 0, 0}, {}};
  const reference::Activity activity = network.forward(p, problem.bound());
  ASSERT_EQ(activity.batch_mean[1].size(), 3u);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    double sum = 0.0, squares = 0.0;
    for (const Row& row : activity.argument[1])
      for (std::size_t place = 0; place < 20; ++place) {
        sum += row[channel * 20 + place];
        squares += row[channel * 20 + place] * row[channel * 20 + place];
      }
    EXPECT_NEAR(sum, 0.0, 1e-9);
    EXPECT_NEAR(squares / 120, 1.0, 1e-3);
  }
}

}  // namespace
}  // namespace norn::test
