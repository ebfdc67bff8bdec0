// SPDX-License-Identifier: Apache-2.0
// What is refused of Convolutional and Pooling layers, in one line each, before anything runs.
#include "norn/base/problem.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::HasSubstr;

const std::vector<DatasetShape> kData = {{"images", 3, {8, 8, 3}, false},
                                         {"clicks", 1, {20, 1, 1}, true},
                                         {"labels", 1, {5, 1, 1}, true}};
constexpr const char* kImages = R"({"Name": "I", "N": "auto", "DataSet": "images"}, )";
constexpr const char* kLabels = R"(, {"N": "auto", "DataSet": "labels"})";

Graph graph_of(const std::string& layers) {
  return make_graph(parse_network_json("{\"Layers\": [" + layers + "]}", "net.json"), kData, "net");
}

// Between images and labels.
std::string fault_of(const std::string& layers) {
  try {
    graph_of(kImages + layers + kLabels);
    return "none";
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string pooling_with(const std::string& keys) {
  return R"({"Name": "P", "Type": "Pooling", "Function": "Max", "Kernel": [2, 2],
"KernelStride": [2, 2], )" +
         keys + "}";
}
std::string convolution_with(const std::string& keys) {
  return R"({"Name": "C", "Type": "Convolutional", "N": 4, "Kernel": [3, 3], )" + keys + "}";
}

TEST(WindowFaults, PoolingHasNoActivation) {
  EXPECT_EQ(fault_of(pooling_with(R"("Activation": "Linear")")), "none");
  EXPECT_EQ(fault_of(pooling_with(R"("pDropout": 0.5)")), "none");
  EXPECT_EQ(
      fault_of(pooling_with(R"("Activation": "Sigmoid")")),
      "net:2: layer \"P\": Activation Sigmoid: a Pooling layer has none; remove the key, or give "
      "it to a layer behind this one");
  for (const char* word : {"Relu", "SoftMax"})
    EXPECT_THAT(fault_of(pooling_with(std::string(R"("Activation": ")") + word + "\"")),
                HasSubstr(": a Pooling layer has none"));
}

TEST(WindowFaults, WhatPoolingPassesOverIsNoted) {
  const std::string text = std::string("{\"Layers\": [") + kImages +
                           pooling_with(R"("pDropout": 0.5, "WeightNorm": 1, "DeltaNorm": 2,
"BatchNormalization": true)") +
                           kLabels + "]}";
  std::string notes;
  const NetworkDescriptor read = parse_network_json(text, "net", [&](const std::string& note) {
    notes += note.substr(note.find(":", 5)) + "\n";
  });
  const LayerDescriptor pool = make_graph(read, kData, "net").network.layers[1];
  EXPECT_TRUE(std::holds_alternative<Linear>(std::get<Activation>(pool.activation)));
  EXPECT_EQ(pool.dropout, 0.0f);
  EXPECT_EQ(pool.weight_norm, 0.0f);
  EXPECT_EQ(pool.delta_norm, 0.0f);
  EXPECT_FALSE(pool.batch_normalization);
  for (const char* key : {"pDropout", "WeightNorm", "DeltaNorm", "BatchNormalization"})
    EXPECT_THAT(notes, HasSubstr(std::string(key) + " has no effect on a Pooling layer"));
}

TEST(WindowFaults, PoolingAddsNothingUp) {
  EXPECT_EQ(fault_of(R"({"Name": "A", "N": [8, 8, 3]},
                        {"Type": "Pooling", "Function": "LRN", "Name": "P", "Skip": "I"})"),
            "net:2: layer \"P\": Skip \"I\": a Pooling layer adds nothing up; give Skip to a layer "
            "in front of or behind this one");
}

TEST(WindowFaults, SparseDataHaveNoWindows) {
  const std::string clicks =
      R"({"Name": "S", "Kind": "Input", "N": "auto", "DataSet": "clicks"}, )";
  EXPECT_EQ(fault_of(clicks + convolution_with(R"("Source": "S", "Kernel": [3])")),
            "net:1: layer \"C\": Source \"S\" has data set \"clicks\", which is sparse, and a "
            "Convolutional layer reads dense data; import it as dense, or put a FullyConnected "
            "layer between them");
  EXPECT_THAT(
      fault_of(clicks + R"({"Name": "P", "Type": "Pooling", "Function": "LRN", "Source": "S"})"),
      HasSubstr("which is sparse, and a Pooling layer reads dense data"));
  EXPECT_EQ(fault_of(clicks + R"({"N": 20, "Source": "S"}, )" + convolution_with(R"("Kernel": 3)")),
            "none");
}

TEST(WindowFaults, WindowsThatDoNotFit) {
  EXPECT_EQ(
      fault_of(R"({"Name": "C", "Type": "Convolutional", "N": 4, "Kernel": [4, 3]})"),
      "net:1: layer \"C\": Kernel is 4 along x, where source \"I\" is 8 wide and KernelStride "
      "is 1: an even window has no middle to keep that width by; make it 3 or 5, or give "
      "KernelStride");
  EXPECT_EQ(fault_of(R"({"Name": "C", "Type": "Convolutional", "N": 4,
"Kernel": [99999999, 99999999]})"),
            "net:2: layer \"C\": Kernel: 4 filters over the 3 channels of layer \"I\" have 1.2e+17 "
            "weights; make Kernel smaller");
}

std::string shared(const std::string& keys) {
  return fault_of(convolution_with(R"("Source": "I")") +
                  R"(, {"Name": "D", "Type": "Convolutional", "Source": "I", )" + keys +
                  R"(, "SharedWeights":
{"InputLayer": "I", "SourceInputLayer": "I", "SourceOutputLayer": "C"}},
{"Name": "B", "N": 2, "Source": ["C", "D"]})");
}

TEST(WindowFaults, OnlyEqualFiltersAreShared) {
  EXPECT_EQ(shared(R"("N": 4, "Kernel": [3, 3], "KernelStride": [2, 2])"), "none");
  EXPECT_EQ(shared(R"("N": 5, "Kernel": [3, 3])"),
            "net:1: layer \"D\": SharedWeights: I -> D (5 filters of 3 x 3 over 3 channels) cannot "
            "use the weights of I -> C (4 filters of 3 x 3 over 3 channels); the sizes must be the "
            "same");
  EXPECT_THAT(shared(R"("N": 4, "Kernel": [3, 5])"),
              HasSubstr("I -> D (4 filters of 3 x 5 over 3 channels) cannot use"));
  EXPECT_THAT(
      fault_of(convolution_with(R"("Source": "I")") +
               R"(, {"Name": "D", "Type": "Convolutional", "Source": "C", "N": 4,
                             "Kernel": [3, 3], "SharedWeights": {"InputLayer": "C",
                             "SourceInputLayer": "I", "SourceOutputLayer": "C"}})"),
      HasSubstr("C -> D (4 filters of 3 x 3 over 4 channels) cannot use the weights of I -> "
                "C (4 filters of 3 x 3 over 3 channels); the sizes must be the same"));
  EXPECT_THAT(fault_of(R"({"Name": "F", "N": 4, "Source": "I"}, )" +
                       convolution_with(R"("Source": "I", "SharedWeights": {"InputLayer": "I",
                             "SourceInputLayer": "I", "SourceOutputLayer": "F"})")),
              HasSubstr("cannot use the weights of I -> F (192 x 4); the sizes must be the same"));
}

TEST(WindowFaults, FiltersAreNotTransposed) {
  EXPECT_THAT(fault_of(convolution_with(R"("Source": "I")") +
                       R"(, {"Name": "D", "Type": "Convolutional", "N": 4, "Kernel": [3, 3],
                             "Source": "I", "SharedWeights": {"InputLayer": "I", "Transposed": 1,
                             "SourceInputLayer": "I", "SourceOutputLayer": "C"}})"),
              HasSubstr("cannot use the weights of I -> C (4 filters of 3 x 3 over 3 channels) "
                        "transposed; remove \"Transposed\""));
}

std::string not_run(const std::string& layers) {
  const Graph graph = graph_of(kImages + layers);
  try {
    require_runnable(graph, Use::training, "net");
    return "none";
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string unsupported(const std::string& keys) {
  return not_run(convolution_with(keys) + kLabels);
}

TEST(WindowFaults, WhatNoKernelConvolves) {
  EXPECT_EQ(not_run(R"({"Name": "C", "Type": "Convolutional", "N": 3, "Kernel": [3, 3],
"DataSet": "images"})"),
            "net:1: layer \"C\": a Convolutional Output layer is not supported; make it a Hidden "
            "layer, with a FullyConnected Output layer behind it");
  EXPECT_EQ(not_run(R"({"Name": "C", "Type": "Convolutional", "N": 3, "Kernel": [3, 3],
"Skip": "I"})" + std::string(kLabels)),
            "net:2: layer \"C\": a skip into a Convolutional layer comes from a hidden layer with "
            "windows and its size, 8 x 8 x 3, which \"I\" is not; remove it");
  EXPECT_EQ(not_run(R"({"Name": "P", "Type": "Pooling", "Function": "LRN", "Source": "I"},
{"Name": "C", "Type": "Convolutional", "N": 3, "Kernel": [3, 3], "Skip": "P"})" +
                    std::string(kLabels)),
            "none");
  EXPECT_EQ(not_run(R"({"Name": "P", "Type": "Pooling", "Function": "Max", "Kernel": [3, 3],
"Kind": "Output", "DataSet": "images"})"),
            "net:2: layer \"P\": a Pooling Output layer is not supported; make it a Hidden layer, "
            "with a FullyConnected Output layer behind it");
  EXPECT_EQ(not_run(convolution_with(R"("Source": "I")") +
                    R"(, {"Name": "D", "Type": "Convolutional", "N": 4, "Kernel": [3, 3],
"Source": "I", "SharedWeights":
{"InputLayer": "I", "SourceInputLayer": "I", "SourceOutputLayer": "C"}},
{"Name": "B", "N": 2, "Source": ["C", "D"]})" +
                    kLabels),
            "none");
}

// Channels stand together behind a convolution: read as another axis they would be mixed up.
TEST(WindowFaults, NoWindowGoesOverChannels) {
  const std::string behind =
      R"(, {"Name": "D", "Type": "Convolutional", "N": 2, "Source": "C", "Kernel": )";
  EXPECT_EQ(not_run(convolution_with(R"("Source": "I")") + behind + "[3, 3]}" + kLabels), "none");
  EXPECT_EQ(not_run(convolution_with(R"("Source": "I")") + behind + "[3, 3, 3]}" + kLabels),
            "net:1: layer \"D\": Kernel has 3 numbers, and would go over the 4 channels of layer "
            "\"C\", which is 8 x 8 x 4; that is not supported: give it 2");
  const std::string pool =
      R"(, {"Name": "P", "Type": "Pooling", "Function": "Max", "Source": "C", "Kernel": )";
  EXPECT_EQ(not_run(convolution_with(R"("Source": "I")") + pool + "[3]}" + kLabels), "none");
  EXPECT_EQ(not_run(convolution_with(R"("Source": "I")") + pool + "[3, 3, 3]}" + kLabels),
            "net:1: layer \"P\": Kernel has 3 numbers, and would go over the 4 channels of layer "
            "\"C\", which is 8 x 8 x 4; that is not supported: give it 2");
}

TEST(WindowFaults, WhatIsSaidOfUnitsIsNotOfChannels) {
  EXPECT_TRUE(
      why_not_runnable(graph_of(kImages + convolution_with(R"("Activation": "SoftMax")") + kLabels),
                       Use::prediction)
          .has_value());
  EXPECT_THAT(
      unsupported(R"("Activation": "SoftMax")"),
      HasSubstr("layer \"C\": Activation on a Convolutional layer is not supported; SoftMax "
                "is for FullyConnected layers: put one behind this layer"));
  EXPECT_THAT(unsupported(R"("DeltaNorm": 1)"),
              HasSubstr("DeltaNorm on a Convolutional layer is not supported"));
  Graph pooled = graph_of(kImages + std::string(R"({"Name": "P", "Type": "Pooling", "Function":
"LRN", "Sparse": true})") +
                          kLabels);
  pooled.network.sparseness = {0.1f, 2.0f};
  EXPECT_THAT(why_not_runnable(pooled, Use::training).value_or("none"),
              HasSubstr("layer \"P\": SparsenessPenalty on a Pooling layer is not supported"));
  EXPECT_THAT(unsupported(R"("BatchNormalization": true, "WeightNorm": 2, "pDropout": 0.5)"),
              testing::Not(HasSubstr("not supported")));
}

TEST(WindowFaults, SizesOfWeights) {
  const Graph graph = graph_of(kImages + convolution_with(R"("Source": "I")") + kLabels);
  EXPECT_EQ(matrix_of(graph, 0).size(), 4 * 3 * 3 * 3);
  EXPECT_EQ(matrix_of(graph, 1).inputs, 8 * 8 * 4);
  EXPECT_EQ(matrix_of(graph, 1).outputs, 5);
  EXPECT_FALSE(matrix_of(graph, 1).rows_are_outputs);
}

}  // namespace
}  // namespace norn
