// SPDX-License-Identifier: Apache-2.0
// A model as DSSTNE writes it, made here item by item: a bias for every source, no attribute that
// may be missing, none of ours. It predicts what the float64 reference says.
#include "norn/base/error.h"
#include "src/engine/model/model_file.h"
#include "src/engine/model/model_numbers.h"
#include "tests/data/support.h"
#include "tests/support/problem.h"
#include "tests/support/test_runtime.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn::test {
namespace {

constexpr Index kExamples = 5;

Problem two_inputs(const LayerActivation& output) {
  Problem problem;
  problem.network.loss = ScaledMarginalCrossEntropy{};
  problem.network.layers = {
      input_layer("Items", 9), input_layer("Features", 4),
      hidden_layer("Hidden", 7, {"Items", "Features"}, Activation(LeakyRelu{0.25f})),
      output_layer("Output", 8, {"Hidden", "Features"}, output)};
  problem.network.layers[2].batch_normalization = true;
  problem.set_data("Items", {}, kExamples, 1);
  problem.set_data("Features", {.sparse = false}, kExamples, 2);
  problem.set_data("Output", {}, kExamples, 3);
  return problem;
}

// Numbers of DSSTNE's enumerations.
std::uint32_t dsstne_activation(const LayerActivation& activation) {
  if (std::holds_alternative<SoftMax>(activation)) return 7;
  const auto& f = std::get<Activation>(activation);
  return std::holds_alternative<LeakyRelu>(f) ? 11 : std::holds_alternative<Tanh>(f) ? 1 : 0;
}

void describe_layers(TensorFileWriter& file, const Problem& problem) {
  for (std::size_t i = 0; i < problem.network.layers.size(); ++i) {
    const LayerDescriptor& layer = problem.network.layers[i];
    const std::string p = fmt::format("layer{}_", i);
    file.attribute(p + "name", layer.name);
    file.attribute(p + "kind", std::uint32_t(layer.kind));
    file.attribute(p + "type", 0u);
    file.attribute(p + "poolingfunction", 0u);
    file.attribute(p + "dataSet", layer.dataset);
    file.attribute(p + "Nx", std::uint32_t(layer.units()));
    for (const char* axis : {"Ny", "Nz", "Nw"}) file.attribute(p + axis, 1u);
    file.attribute(p + "dimensions", 1u);
    file.attribute(p + "pDropout", 0.5f);
    file.attribute(p + "weightInit", 2u);
    file.attribute(p + "weightInitScale", 0.01f);
    file.attribute(p + "biasInit", -10.2f);
    file.attribute(p + "activation", dsstne_activation(layer.activation));
    file.attribute(p + "RELUSlope", 0.25f);
    file.attribute(p + "attributes", layer.batch_normalization ? 4u : 0u);
    file.attribute(p + "sources", std::uint32_t(layer.sources.size()));
    for (std::size_t k = 0; k < layer.sources.size(); ++k)
      file.attribute(fmt::format("{}source{}", p, k), layer.sources[k]);
    file.attribute(p + "skips", 0u);
  }
}

std::vector<float> floats(const reference::Row& row, double factor = 1.0) {
  std::vector<float> result;
  for (double v : row) result.push_back(float(factor * v));
  return result;
}

// Biases are split over the sources of their layer in parts that a float holds exactly.
void write_dsstne_model(const std::filesystem::path& path, const Problem& problem,
                        const reference::Network& network, const reference::Parameters& p) {
  TensorFileWriter file(path);
  file.attribute("version", 0.9f);
  file.attribute("name", std::string("two inputs"));
  file.attribute("kind", 0u);
  file.attribute("errorFunction", 3u);
  file.attribute("layers", std::uint32_t(problem.network.layers.size()));
  file.attribute("weights", std::uint32_t(network.links().size()));
  file.attribute("SMCE_oneTarget", 0.8f);
  file.attribute("SMCE_oneScale", 30.0f);
  describe_layers(file, problem);
  const auto& layers = problem.network.layers;
  for (std::size_t w = 0; w < network.links().size(); ++w) {
    const reference::Link& link = network.links()[w];
    const std::string name = fmt::format("weight{}_", w);
    const LayerDescriptor& destination = layers[std::size_t(link.destination)];
    file.attribute(name + "inputLayer", layers[std::size_t(link.source)].name);
    file.attribute(name + "outputLayer", destination.name);
    file.attribute(name + "bShared", 0u);
    file.define_float(name + "bias", name + "biasDim", destination.units());
    file.define_float(name + "weights", name + "weightDim", Index(p.weight[w].size()));
  }
  for (const char* item : {"scaleBN", "biasBN", "runningMeanBN", "runningVarianceBN"})
    file.define_float(fmt::format("layer2_{}", item), "layer2_bnDim", 7);
  std::vector<int> seen(layers.size(), 0);
  for (std::size_t w = 0; w < network.links().size(); ++w) {
    const auto destination = std::size_t(network.links()[w].destination);
    const double part = seen[destination]++ == 0 ? -0.5 : 1.5;  // together the whole bias
    file.write(fmt::format("weight{}_bias", w), 0,
               std::span<const float>(floats(p.of("bias")[destination], part)));
    file.write(fmt::format("weight{}_weights", w), 0, std::span<const float>(floats(p.weight[w])));
  }
  const auto write = [&](const std::string& item, const reference::Row& row) {
    file.write(item, 0, std::span<const float>(floats(row)));
  };
  for (const char* item : {"scaleBN", "biasBN", "runningMeanBN", "runningVarianceBN"})
    write(fmt::format("layer2_{}", item), p.of(item)[2]);
  file.commit();
}

TEST(DsstneModel, PredictsWhatItsNumbersSay) {
  for (const LayerActivation& output :
       {LayerActivation(SoftMax{}), LayerActivation(Activation(Sigmoid{}))}) {
    const TempDir folder;
    const Problem problem = two_inputs(output);
    const reference::Network network(problem.network, problem.planned_batch, Pass::prediction);
    const auto parameters = random_parameters(network, 4);
    write_dsstne_model(folder / "network.nc", problem, network, parameters);

    const TensorFileReader file(folder / "network.nc");
    file.verify();
    const ModelInfo info = read_model_info(file);
    EXPECT_EQ(info.format, 0);
    EXPECT_FALSE(info.has_training_state);
    EXPECT_EQ(info.network.layers[2].dropout, 0.5f);
    EXPECT_EQ(info.network.layers[2].init.bias, -10.2f);
    const auto loss = std::get<ScaledMarginalCrossEntropy>(info.network.loss);
    EXPECT_EQ(loss.one_target, 0.8f);
    EXPECT_EQ(loss.one_scale, 30.0f);
    EXPECT_EQ(loss.zero_target, 0.1f) << "what is missing takes its default";

    Problem read = problem;
    read.network = info.network;
    Engine engine(read, Pass::prediction);
    load_weights(&file, info, engine.network());
    const reference::Rows expected = network.forward(parameters, problem.bound()).output[3];
    const MatrixView<const float> y = engine.network().outputs(problem.bound(), 3);
    for (Index b = 0; b < y.rows; ++b)
      for (Index j = 0; j < y.cols; ++j)
        EXPECT_NEAR(double(y(b, j)), expected[std::size_t(b)][std::size_t(j)],
                    1e-5 * tolerance_factor());
  }
}

TEST(DsstneModel, AttributesThatAreMissingHaveDsstnesDefaults) {
  const TempDir folder;
  {
    TensorFileWriter file(folder / "network.nc");
    file.attribute("version", 0.9f);
    file.attribute("kind", 0u);
    file.attribute("errorFunction", 0u);
    Problem problem;
    problem.network.layers = {input_layer("In", 9), hidden_layer("First", 4, {"In"}),
                              hidden_layer("Second", 4, {"In"}),
                              output_layer("Out", 9, {"First", "Second"})};
    file.attribute("layers", 4u);
    describe_layers(file, problem);
    file.attribute("weights", 2u);
    file.attribute("weight0_outputLayer", std::string("First"));
    file.attribute("weight1_outputLayer", std::string("Second"));
    file.attribute("weight1_bShared", 1u);
    file.attribute("weight1_inputLayer", std::string("In"));
    file.attribute("weight1_sourceInputLayer", std::string("In"));
    file.attribute("weight1_sourceOutputLayer", std::string("First"));
    file.commit();
  }
  const TensorFileReader file(folder / "network.nc");
  file.verify();
  const NetworkDescriptor network = read_model_info(file).network;
  EXPECT_EQ(network.boost_one, 1.0f);
  EXPECT_EQ(network.boost_zero, 1.0f);
  EXPECT_TRUE(network.shuffle);
  EXPECT_TRUE(network.layers[1].shared_weights.empty());
  ASSERT_EQ(network.layers[2].shared_weights.size(), 1u);
  EXPECT_FALSE(network.layers[2].shared_weights[0].transposed);
}

// What it calls linear, and what it took out.
TEST(DsstneModel, ActivationsOfOldNumbersAreLinear) {
  for (const int number : {0, 5, 6, 8, 9}) {
    const LayerActivation found = activation_of_number(number, "x");
    const auto* activation = std::get_if<Activation>(&found);
    EXPECT_EQ(activation && std::holds_alternative<Linear>(*activation), number != 0) << number;
  }
}

// 2 filters of 3 x 5 (x, y) over the 4 channels of an image, and 7 units behind them.
Graph small_convolution() {
  NetworkDescriptor network;
  network.layers = {input_layer("Image", 1), hidden_layer("Conv", 2, {"Image"}),
                    output_layer("Output", 7, {"Conv"}, SoftMax{})};
  network.layers[0].extent = {9, 6, 4, 1};
  network.layers[0].dimensions = 3;
  network.layers[1].type = LayerType::convolutional;
  network.layers[1].kernel = {3, 5, 1};
  network.layers[1].kernel_dimensions = 2;
  return make_graph(network, {}, "small");
}

void write_filters(const std::filesystem::path& path, const std::vector<std::uint64_t>& extents,
                   Index weights, Index biases) {
  TensorFileWriter file(path);
  file.attribute("weights", 2u);
  const auto matrix = [&](const std::string& p, const char* from, const char* to, Index bias,
                          Index size) {
    file.attribute(p + "inputLayer", std::string(from));
    file.attribute(p + "outputLayer", std::string(to));
    file.define_float(p + "bias", p + "biasDim", bias);
    file.define_float(p + "weights", p + "weightDim", size);
  };
  matrix("weight0_", "Image", "Conv", biases, weights);
  constexpr std::array kAxes = {"width", "height", "length", "depth", "breadth"};
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    file.attribute(fmt::format("weight0_{}", kAxes[axis]), extents[axis]);
  matrix("weight1_", "Conv", "Output", 7, 9 * 6 * 2 * 7);
  for (const auto& [item, size] :
       std::vector<std::pair<const char*, Index>>{{"weight0_bias", biases},
                                                  {"weight0_weights", weights},
                                                  {"weight1_bias", 7},
                                                  {"weight1_weights", 9 * 6 * 2 * 7}})
    file.write(item, 0, std::span<const float>(std::vector<float>(std::size_t(size), 0.5f)));
  file.commit();
}

std::string filter_fault(const std::vector<std::uint64_t>& extents, Index weights = 2 * 4 * 15,
                         Index biases = 2) {
  const TempDir folder;
  write_filters(folder / "network.nc", extents, weights, biases);
  const TensorFileReader file(folder / "network.nc");
  file.verify();
  try {
    check_sizes(file, small_convolution());
    return "none";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(DsstneModel, FiltersOfOtherDimensionsAreRefused) {
  EXPECT_EQ(filter_fault({2, 4, 5, 3, 1}), "none");
  EXPECT_EQ(filter_fault({}), "none") << "what is missing is not compared";
  EXPECT_THAT(
      filter_fault({2, 4, 3, 5, 1}),
      testing::EndsWith(
          "network.nc: weights from layer \"Image\" to layer \"Conv\" are 2 filters over 4 "
          "channels of 3 x 5 x 1 (length x depth x breadth), but the network needs 2 filters "
          "over 4 channels of 5 x 3 x 1; it is a model of another network"));
  EXPECT_THAT(filter_fault({4, 2, 5, 3, 1}), testing::HasSubstr("are 4 filters over 2 channels"));
  EXPECT_THAT(
      filter_fault({2, 4, 5, 3, 1}, 2 * 4 * 14),
      testing::HasSubstr("\"weight0_weights\" has 112 elements, but the network needs 120"));
  EXPECT_THAT(filter_fault({2, 4, 5, 3, 1}, 2 * 4 * 15, 9 * 6 * 2),
              testing::HasSubstr("\"weight0_bias\" has 108 elements, but the network needs 2"))
      << "a bias for each channel, not for each unit";
}

}  // namespace
}  // namespace norn::test
