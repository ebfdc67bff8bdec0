// SPDX-License-Identifier: Apache-2.0
// Which layers ranks share out by example.
#include "src/step/layouts.h"

#include "src/step/facts.h"
#include "tests/support/problem.h"

#include <array>

#include <gtest/gtest.h>

namespace norn::test {
namespace {

LayerDescriptor image(const std::string& name) {
  LayerDescriptor layer = input_layer(name, 9);
  layer.extent = {9, 7, 3, 1};
  layer.dimensions = 3;
  return layer;
}
LayerDescriptor convolution(const std::string& name, std::vector<std::string> sources) {
  LayerDescriptor layer = hidden_layer(name, 5, std::move(sources));
  layer.type = LayerType::convolutional;
  layer.kernel = {3, 3, 1};
  layer.kernel_dimensions = 2;
  return layer;
}
LayerDescriptor pooling(const std::string& name, PoolingFunction function,
                        std::vector<std::string> sources) {
  LayerDescriptor layer = hidden_layer(name, 1, std::move(sources), Activation(Linear{}));
  layer.type = LayerType::pooling;
  layer.function = function;
  if (function == PoolingFunction::max || function == PoolingFunction::average) {
    layer.kernel = {2, 2, 1};
    layer.kernel_dimensions = 2;
    layer.stride = {2, 2, 1};
  }
  return layer;
}

struct Network {
  NetworkDescriptor descriptor;
  std::vector<std::string> sparse = {};
  std::vector<std::string> forced = {};
};

// Layers by example with their reasons, in the order of the descriptor.
std::string layouts(const Network& network) {
  std::vector<DatasetShape> shapes;
  for (const LayerDescriptor& layer : network.descriptor.layers)
    if (!layer.dataset.empty())
      shapes.push_back({layer.dataset,
                        layer.dimensions,
                        {layer.extent[0], layer.extent[1], layer.extent[2]},
                        std::ranges::count(network.sparse, layer.name) > 0});
  const Graph graph = make_graph(network.descriptor, shapes, "test");
  StepSettings settings;
  settings.batch = 4;
  for (const LayerDescriptor& layer : network.descriptor.layers) {
    settings.sparse_input.push_back(std::ranges::count(network.sparse, layer.name) > 0);
    settings.by_example.push_back(std::ranges::count(network.forced, layer.name) > 0);
  }
  const StepFacts facts(graph, settings);
  std::string text;
  for (int layer = 0; layer < facts.layers(); ++layer)
    if (facts.by_example(layer))
      text += facts.layer(layer).name + ": " + facts.layout(layer).reason + "\n";
  return text;
}

TEST(Layouts, OfFullyConnectedNetworksAreByUnit) {
  Network network;
  network.descriptor.layers = {input_layer("In", 30), hidden_layer("Hidden", 8, {"In"}),
                               output_layer("Out", 9, {"Hidden"})};
  EXPECT_EQ(layouts(network), "");
  network.forced = {"Hidden", "Out"};  // an Output layer is by unit whatever is asked
  EXPECT_EQ(layouts(network), "In: all that it feeds is by example\nHidden: it was asked for\n");
  network.sparse = {"In"};
  EXPECT_EQ(layouts(network), "Hidden: it was asked for\n");
}

TEST(Layouts, OfATrunkOfConvolutionsAreByExample) {
  Network network;
  network.descriptor.layers = {image("In"),
                               convolution("Conv", {"In"}),
                               pooling("Norm", PoolingFunction::lrn, {"Conv"}),
                               pooling("Max", PoolingFunction::max, {"Norm"}),
                               pooling("Mean", PoolingFunction::average, {"Max"}),
                               hidden_layer("Full", 8, {"Mean"}),
                               output_layer("Out", 9, {"Full"})};
  EXPECT_EQ(layouts(network),
            "In: all that it feeds is by example\nConv: it is Convolutional\n"
            "Norm: it pools places of an example\nMax: it pools places of an example\n"
            "Mean: it pools places of an example\n");
  network.descriptor.layers[6].sources = {"Full", "In"};
  EXPECT_TRUE(layouts(network).starts_with("Conv: it is Convolutional\n"));
}

TEST(Layouts, OfPoolingOverSourcesIsThatOfTheFirst) {
  for (const PoolingFunction function :
       {PoolingFunction::maxout, PoolingFunction::cosine, PoolingFunction::dot_product}) {
    Network network;
    network.descriptor.layers = {image("In"),
                                 convolution("A", {"In"}),
                                 convolution("B", {"In"}),
                                 hidden_layer("C", 315, {"In"}),
                                 hidden_layer("D", 315, {"In"}),
                                 pooling("Images", function, {"A", "B"}),
                                 pooling("Units", function, {"C", "D"}),
                                 output_layer("Out", 9, {"Images", "Units"})};
    EXPECT_EQ(layouts(network),
              "A: it is Convolutional\nB: it is Convolutional\nImages: as its first source, A\n");
  }
}

}  // namespace
}  // namespace norn::test
