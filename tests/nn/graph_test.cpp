// SPDX-License-Identifier: Apache-2.0
// Resolving descriptors: order, edges, sizes from data, shared weights, and what is refused.
#include "src/nn/graph.h"

#include "norn/base/problem.h"
#include "src/nn/descriptor_json.h"

#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<DatasetShape> kData = {{"users", 1, {10, 1, 1}, true},
                                         {"items", 1, {20, 1, 1}, true},
                                         {"images", 3, {32, 32, 3}, false}};

Graph graph_of(const std::string& layers, const std::vector<DatasetShape>& data = kData) {
  return make_graph(parse_network_json("{\"Layers\": [" + layers + "]}", "net.json"), data, "net");
}

std::string fault_of(const std::string& layers, const std::vector<DatasetShape>& data = kData) {
  try {
    graph_of(layers, data);
    return "none";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(Graph, ResolvesAChain) {
  const Graph graph =
      graph_of(R"({"N": "auto", "DataSet": "users"}, {"N": 3}, {"N": "auto", "DataSet": "items"})");
  EXPECT_THAT(graph.order, ElementsAre(0, 1, 2));
  ASSERT_EQ(graph.edges.size(), 2u);
  EXPECT_EQ(graph.edges[0].source, 0);
  EXPECT_EQ(graph.edges[0].destination, 1);
  EXPECT_EQ(graph.edges[1].source, 1);
  EXPECT_EQ(graph.edges[1].destination, 2);
  EXPECT_THAT(graph.sources[2], ElementsAre(1));
  EXPECT_THAT(graph.destinations[0], ElementsAre(0));
  EXPECT_EQ(graph.network.layers[0].units(), 10);
  EXPECT_EQ(graph.network.layers[2].units(), 20);
  EXPECT_FALSE(graph.network.layers[2].auto_size);
  EXPECT_EQ(graph.layer("Hidden1"), 1);
  EXPECT_EQ(graph.layer("hidden1"), -1);
  EXPECT_THAT(graph.unused, IsEmpty());
  EXPECT_FALSE(why_not_runnable(graph, Use::training).has_value());
}

TEST(Graph, FillsNamesAndSourcesOfADescriptorMadeInCode) {
  NetworkDescriptor network;
  network.layers.resize(2);
  network.layers[0].kind = LayerKind::input;
  network.layers[1].kind = LayerKind::output;
  const Graph graph = make_graph(network, {}, "code");
  EXPECT_EQ(graph.network.layers[1].name, "Output1");
  EXPECT_THAT(graph.network.layers[1].sources, ElementsAre("Input0"));
}

TEST(Graph, OrderPutsSourcesFirstAndKeepsTheFilesOrderOtherwise) {
  const Graph graph = graph_of(
      R"({"Name": "O", "Kind": "Output", "Source": ["C", "A"]},
         {"Name": "C", "Kind": "Hidden", "Source": "B", "Skip": "A"},
         {"Name": "B", "Kind": "Hidden", "Source": "I"},
         {"Name": "A", "Kind": "Hidden", "Source": "I"},
         {"Name": "I", "Kind": "Input"})");
  EXPECT_THAT(graph.order, ElementsAre(4, 2, 3, 1, 0));
  ASSERT_EQ(graph.edges.size(), 6u);  // the skip stands behind all weight matrices
  const Edge& skip = graph.edges[5];
  EXPECT_EQ(skip.kind, EdgeKind::skip);
  EXPECT_EQ(std::pair(skip.source, skip.destination), std::pair(3, 1));
  EXPECT_THAT(graph.sources[1], ElementsAre(2, 5));
  EXPECT_THAT(graph.matrices(1), ElementsAre(2));
  EXPECT_THAT(graph.destinations[3], ElementsAre(1, 5));
}

TEST(Graph, RandomNetworksAreSortedAndConnectedAsTheySay) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    const int count = int(2 + random() % 12);
    std::vector<int> place(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) place[std::size_t(i)] = i;
    std::shuffle(place.begin(), place.end(), random);
    NetworkDescriptor network;
    network.layers.resize(std::size_t(count));
    // Layer place[i] may be fed by place[j] with j < i.
    for (int i = 0; i < count; ++i) {
      LayerDescriptor& layer = network.layers[std::size_t(place[std::size_t(i)])];
      layer.name = fmt::format("L{}", place[std::size_t(i)]);
      layer.kind = i == 0 ? LayerKind::input : LayerKind::hidden;
      for (int j = 0; j < i; ++j)
        if (random() % 3 == 0 || (j == 0 && i == 1))
          layer.sources.push_back(fmt::format("L{}", place[std::size_t(j)]));
      if (i > 0 && layer.sources.empty()) layer.sources = {fmt::format("L{}", place[0])};
    }
    const Graph graph = make_graph(network, {}, "random");
    ASSERT_EQ(graph.order.size(), std::size_t(count));
    std::vector<int> position(std::size_t(count), -1);
    for (int i = 0; i < count; ++i) position[std::size_t(graph.order[std::size_t(i)])] = i;
    std::size_t edges = 0;
    for (std::size_t to = 0; to < network.layers.size(); ++to) {
      const std::vector<std::string>& sources = network.layers[to].sources;
      ASSERT_EQ(graph.sources[to].size(), sources.size());
      for (std::size_t s = 0; s < sources.size(); ++s, ++edges) {
        EXPECT_EQ(graph.sources[to][s], int(edges));
        const Edge& edge = graph.edges[edges];
        EXPECT_EQ(edge.destination, int(to));
        EXPECT_EQ(network.layers[std::size_t(edge.source)].name, sources[s]);
        EXPECT_LT(position[std::size_t(edge.source)], position[to]);
      }
    }
  }
}

TEST(Graph, UnknownNamesAreErrors) {
  EXPECT_EQ(
      fault_of(R"({"Name": "Input"}, {"Name": "Hidden1", "Source": "Inptu"},
                        {"Name": "Output", "Source": ["Hidden1", "xyzzyx"], "Skip": "Hiden1"})"),
      "net:1: layer \"Hidden1\": Source \"Inptu\" is not a layer; did you mean \"Input\"? Layers: "
      "Input, Hidden1, Output\n"
      "net:2: layer \"Output\": Source \"xyzzyx\" is not a layer. Layers: Input, Hidden1, Output\n"
      "net:2: layer \"Output\": Skip \"Hiden1\" is not a layer; did you mean \"Hidden1\"? Layers: "
      "Input, Hidden1, Output");
  EXPECT_EQ(fault_of(R"({}, {"Source": ["Input0", "Input0"]})"),
            "net:1: layer \"Output1\": Source names \"Input0\" twice");
  EXPECT_EQ(
      fault_of(R"({"Kind": "Hidden"}, {"Kind": "Input"}, {"Source": "Input1"})"),
      "net:1: layer \"Hidden0\": has no Source; the first layer is an Input layer, or names its "
      "source");
  EXPECT_EQ(fault_of(R"({"Kind": "Hidden"}, {"Kind": "Output"})"),
            "net: the network has no Input layer");
  EXPECT_THROW(make_graph({}, {}, "net"), UsageError);
}

TEST(Graph, CyclesAreNamed) {
  EXPECT_EQ(fault_of(R"({"Name": "I"}, {"Name": "H1", "Source": ["I", "H2"]},
                        {"Name": "H2", "Source": "H1"}, {"Name": "O", "Source": "H2"})"),
            "net: the layers form a cycle: H1 -> H2 -> H1; remove one of these connections");
  EXPECT_EQ(fault_of(R"({"Name": "I"}, {"Name": "H", "Source": ["I", "H"]}, {"Name": "O"})"),
            "net: the layers form a cycle: H -> H; remove one of these connections");
  EXPECT_EQ(fault_of(R"({"Name": "I"}, {"Name": "A", "Skip": "C"}, {"Name": "B"}, {"Name": "C"},
                        {"Name": "O"})"),
            "net: the layers form a cycle: A -> B -> C -> A; remove one of these connections");
}

TEST(Graph, AutoNeedsItsDataSet) {
  EXPECT_EQ(
      fault_of(R"({"N": "auto", "DataSet": "user"}, {})"),
      "net:1: layer \"Input0\": N \"auto\": DataSet \"user\" is not among the data; did you mean "
      "\"users\"? Data sets: users, items, images");
  EXPECT_EQ(
      fault_of(R"({"N": "auto", "DataSet": "users"}, {})", {}),
      "net:1: layer \"Input0\": N \"auto\": DataSet \"users\" is not among the data; there are no "
      "data sets");
  const Graph graph = graph_of(R"({"N": "auto", "DataSet": "images"}, {"N": 5})");
  EXPECT_EQ(graph.network.layers[0].dimensions, 3);
  EXPECT_THAT(graph.network.layers[0].extent, ElementsAre(32, 32, 3, 1));
}

TEST(Graph, LayersMayBeWiderThanTheirDataButNotNarrower) {
  EXPECT_EQ(graph_of(R"({"N": 128, "DataSet": "users"}, {})").network.layers[0].units(), 128);
  EXPECT_EQ(
      fault_of(R"({"N": 9, "DataSet": "users"}, {"N": 19, "DataSet": "items"})"),
      "net:1: layer \"Input0\": N is 9, but data set \"users\" is 10 wide; N must not be smaller "
      "(\"auto\" takes the data set's width)\n"
      "net:1: layer \"Output1\": N is 19, but data set \"items\" is 20 wide; N must not be smaller "
      "(\"auto\" takes the data set's width)");
  EXPECT_EQ(graph_of(R"({"N": 3072, "DataSet": "images"}, {})").network.layers[0].units(), 3072);
  EXPECT_EQ(
      fault_of(R"({"N": [32, 3, 32], "DataSet": "images"}, {})"),
      "net:1: layer \"Input0\": N is 32 x 3 x 32, but data set \"images\" is 32 x 32 x 3; they "
      "must be the same, or N \"auto\"");
  EXPECT_EQ(graph_of(R"({"N": 4, "DataSet": "elsewhere"}, {})").network.layers[0].units(), 4);
}

TEST(Graph, FeaturesAreWeightedInSparseDataOnly) {
  const std::string layer = R"({"N": "auto", "DataSet": "DATA",
                               "InputWeighting": {"Scheme": "InverseDocumentFrequency"}}, {"N": 3})";
  const auto with = [&](const std::string& data) {
    return fault_of(std::string(layer).replace(layer.find("DATA"), 4, data));
  };
  EXPECT_EQ(with("users"), "none");
  EXPECT_EQ(with("images"),
            "net:2: layer \"Input0\": InputWeighting InverseDocumentFrequency is for sparse data, "
            "and data set \"images\" is dense: every example has every feature; remove the key, or "
            "import the data as sparse");
}

TEST(Graph, SkipsMustHaveTheSameSizeAndBeDense) {
  EXPECT_EQ(
      fault_of(R"({"N": 4}, {"N": 3}, {"N": 4, "Skip": ["Hidden1", "Input0"]})"),
      "net:1: layer \"Output2\": Skip \"Hidden1\" has 3 units, this layer has 4; they must be the "
      "same");
  EXPECT_EQ(
      fault_of(R"({"N": 10, "DataSet": "users"}, {"N": 10, "Skip": "Input0"})"),
      "net:1: layer \"Output1\": Skip \"Input0\" is an Input layer with sparse data; only dense "
      "activations can be added");
}

constexpr const char* kTied =
    R"({"Name": "I", "N": 6}, {"Name": "H", "N": 3}, {"Name": "O", "N": 6,
        "SharedWeights": {"InputLayer": "H", "SourceInputLayer": "I", "SourceOutputLayer": "H",
                          "Transposed": true}})";

TEST(Graph, SharedWeightsAreResolved) {
  const Graph tied = graph_of(kTied);
  EXPECT_EQ(tied.edges[0].shared_with, -1);
  EXPECT_EQ(tied.edges[1].shared_with, 0);
  EXPECT_TRUE(tied.edges[1].transposed);
  const std::string chain =
      R"({"Name": "I", "N": 6}, {"Name": "A", "N": 3}, {"Name": "B", "N": 6,
          "SharedWeights": {"InputLayer": "A", "SourceInputLayer": "I", "SourceOutputLayer": "A",
                            "Transposed": true}},
         {"Name": "C", "N": 3, "SharedWeights": {"InputLayer": "B", "SourceInputLayer": "A",
                            "SourceOutputLayer": "B", "Transposed": true}},
         {"Name": "O", "N": 2})";
  const Graph graph = graph_of(chain);
  EXPECT_EQ(graph.edges[2].shared_with, 0);  // B -> C uses A -> B, which uses I -> A
  EXPECT_FALSE(graph.edges[2].transposed);   // transposed twice
}

TEST(Graph, SharedWeightsThatDoNotFitAreErrors) {
  const auto shared = [](const std::string& entry) {
    return fault_of(R"({"Name": "I", "N": 6}, {"Name": "H", "N": 3},
                       {"Name": "O", "N": 6, "SharedWeights": )" +
                    entry + "}");
  };
  EXPECT_EQ(
      shared(R"({"InputLayer": "I", "SourceInputLayer": "I", "SourceOutputLayer": "H"})"),
      "net:2: layer \"O\": SharedWeights: InputLayer \"I\" is not a source of it; sources: H");
  EXPECT_EQ(shared(R"({"InputLayer": "H", "SourceInputLayer": "H", "SourceOutputLayer": "I"})"),
            "net:2: layer \"O\": SharedWeights: there is no connection H -> I to share; "
            "SourceInputLayer must be a source of SourceOutputLayer");
  EXPECT_EQ(shared(R"({"InputLayer": "H", "SourceInputLayer": "H", "SourceOutputLayer": "O"})"),
            "net:2: layer \"O\": SharedWeights: H -> O would share its own weights");
  EXPECT_EQ(
      shared(R"({"InputLayer": "H", "SourceInputLayer": "I", "SourceOutputLayer": "H"})"),
      "net:2: layer \"O\": SharedWeights: H -> O (3 x 6) cannot use the weights of I -> H (6 x 3); "
      "add \"Transposed\": true");
  const std::string twice =
      R"({"InputLayer": "H", "SourceInputLayer": "I", "SourceOutputLayer": "H", "Transposed": true})";
  EXPECT_EQ(shared("[" + twice + ", " + twice + "]"),
            "net:2: layer \"O\": SharedWeights: InputLayer \"H\" is given twice");
  EXPECT_EQ(
      fault_of(R"({"Name": "I", "N": 6}, {"Name": "H", "N": 3}, {"Name": "O", "N": 7,
        "SharedWeights": {"InputLayer": "H", "SourceInputLayer": "I", "SourceOutputLayer": "H",
                          "Transposed": true}})"),
      "net:2: layer \"O\": SharedWeights: H -> O (3 x 7) cannot use the weights of I -> H (6 x 3) "
      "transposed; the sizes must be the same");
  EXPECT_THAT(
      fault_of(R"({"Name": "I", "N": 3}, {"Name": "A", "N": 3, "SharedWeights":
          {"InputLayer": "I", "SourceInputLayer": "A", "SourceOutputLayer": "B"}},
         {"Name": "B", "N": 3, "SharedWeights":
          {"InputLayer": "A", "SourceInputLayer": "I", "SourceOutputLayer": "A"}}, {"Name": "O"})"),
      HasSubstr("SharedWeights lead round in a circle; one connection must own the weights"));
}

// The whole of what is wrong, with lines: nothing hides behind something else, and nothing is said
// that only follows from it.
TEST(Graph, AllThatIsWrongIsSaidAtOnce) {
  const std::string layers = R"(
{"Name": "I", "N": 9, "DataSet": "users"},
{"Name": "H", "N": 3,
 "Source": ["I", "J"]},
{"Name": "A", "N": 4, "Source": "B"},
{"Name": "B", "N": 4, "Source": "A", "Skip": "H"},
{"Name": "O", "N": "auto", "DataSet": "item", "Source": "H", "SharedWeights":
  {"InputLayer": "I", "SourceInputLayer": "I", "SourceOutputLayer": "H"}})";
  EXPECT_EQ(fault_of(layers),
            "net: the layers form a cycle: A -> B -> A; remove one of these connections\n"
            "net:2: layer \"I\": N is 9, but data set \"users\" is 10 wide; N must not be smaller "
            "(\"auto\" takes the data set's width)\n"
            "net:4: layer \"H\": Source \"J\" is not a layer. Layers: I, H, A, B, O\n"
            "net:6: layer \"B\": Skip \"H\" has 3 units, this layer has 4; they must be the same\n"
            "net:7: layer \"O\": N \"auto\": DataSet \"item\" is not among the data; did you mean "
            "\"items\"? Data sets: users, items, images");
}

TEST(Graph, CheckedWithoutDataWhateverDependsOnThemIsPassedOver) {
  const auto fault = [](const std::string& layers) -> std::string {
    try {
      check_network(parse_network_json("{\"Layers\": [\n" + layers + "]}", "net.json"), "net.json");
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(fault(R"({"N": "auto", "DataSet": "x"}, {"N": 3},
                     {"N": "auto", "DataSet": "y", "Skip": ["Input0", "Hidden1"]})"),
            "none");
  EXPECT_EQ(fault(R"({"N": "auto", "DataSet": "x"}, {"N": 3, "Skip": "Hiden2"},
{"Name": "Hidden2", "N": 4, "Skip": "Hidden1"}, {"N": 2})"),
            "net.json:2: layer \"Hidden1\": Skip \"Hiden2\" is not a layer; did you mean "
            "\"Hidden2\"? Layers: Input0, Hidden1, Hidden2, Output3\n"
            "net.json:3: layer \"Hidden2\": Skip \"Hidden1\" has 3 units, this layer has 4; they "
            "must be the same");
}

TEST(Graph, ProblemsHaveTheirPlacesInParts) {
  try {
    graph_of("{},\n{\n  \"Source\":\n\"Inptu0\"}");
    ADD_FAILURE();
  } catch (const ProblemsError& error) {
    ASSERT_EQ(error.problems().size(), 1u);
    const Problem& problem = error.problems()[0];
    EXPECT_EQ(problem.file, "net");
    EXPECT_EQ(problem.line, 3);
    EXPECT_EQ(problem.column, 3);
    EXPECT_EQ(problem.key, "Layers[1].Source");
    EXPECT_EQ(problem.suggestion(), "Input0");
    EXPECT_EQ(problem.message,
              "layer \"Output1\": Source \"Inptu0\" is not a layer; did you mean \"Input0\"? "
              "Layers: Input0, Output1");
  }
}

TEST(Graph, EveryLayerThatCannotRunIsNamed) {
  const Graph graph =
      graph_of(R"({"N": 8}, {"Kind": "Output", "Type": "Pooling", "Function": "LRN"},
                      {"Kind": "Target", "Source": "Input0"})");
  try {
    require_runnable(graph, Use::training, "net.json");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "net.json:1: layer \"Output1\": a Pooling Output layer is not supported; make it a Hidden "
        "layer, with a FullyConnected Output layer behind it\n"
        "net.json:2: layer \"Target2\": Kind Target has no meaning in training or prediction; use "
        "Output");
  }
}

TEST(Graph, LayersThatLeadToNoOutputAreUnused) {
  const Graph graph = graph_of(
      R"({"Name": "I"}, {"Name": "Dangling", "N": 4}, {"Name": "Other", "Kind": "Input"},
         {"Name": "O", "Source": "I"})");
  EXPECT_THAT(graph.unused, ElementsAre(1, 2));
  EXPECT_EQ(graph.order.size(), 4u);
  EXPECT_FALSE(why_not_runnable(graph, Use::training).has_value());
}

TEST(Graph, NetworksWithoutOutputAreUsedWhole) {
  const Graph graph = graph_of(R"({}, {"N": 4}, {"Kind": "Hidden", "N": 3})");
  EXPECT_THAT(graph.unused, IsEmpty());
  EXPECT_FALSE(why_not_runnable(graph, Use::training).has_value());
}

TEST(Graph, WhyNotRunnableNamesLayerAndReason) {
  const auto reason = [](const std::string& layers) {
    return why_not_runnable(graph_of(layers), Use::training).value_or("runs");
  };
  EXPECT_EQ(reason(R"({"Type": "Convolutional", "N": [8, 8, 3]},
                      {"Type": "Convolutional", "N": 4, "Kernel": [3, 3]}, {"N": 2})"),
            "runs");
  EXPECT_EQ(reason(R"({"N": 8}, {"Type": "Pooling", "Function": "LRN"}, {"N": 2})"), "runs");
  EXPECT_EQ(reason(R"({"N": 8}, {"Kind": "Output", "Name": "O"}, {"Name": "P"})"),
            "layer \"O\": an Output layer cannot feed layer \"P\": its values are used up block by "
            "block and never kept whole; make it a Hidden layer, or feed layer \"P\" from its "
            "sources");
  EXPECT_THAT(
      reason(R"({"N": 8}, {"Kind": "Output"}, {"Source": "Input0", "Skip": "Output1"})"),
      testing::StartsWith("layer \"Output1\": an Output layer cannot feed layer \"Output2\""));
  EXPECT_EQ(reason(R"({"N": 8}, {"Kind": "Target"})"),
            "layer \"Target1\": Kind Target has no meaning in training or prediction; use Output");
  EXPECT_EQ(reason(R"({"Type": "Convolutional", "N": [8, 8, 3]}, {"N": 2})"), "runs");
}

TEST(Graph, DescriptorsMadeInCodeAreCheckedByTheSameTable) {
  NetworkDescriptor network;
  network.layers.resize(3);
  network.layers[0].kind = LayerKind::input;
  network.layers[0].weight_norm = 1.0f;
  network.layers[1].dropout = 1.5f;
  network.layers[1].init.bias = std::numeric_limits<float>::quiet_NaN();
  network.layers[2].kind = LayerKind::output;
  network.layers[2].batch_normalization = true;
  network.training.rate = -1.0f;
  network.loss = ScaledMarginalCrossEntropy{2.0f, 0.0f, 1.0f, 1.0f};
  try {
    make_graph(network, {}, "code");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "code: ScaledMarginalCrossEntropy: oneTarget 2 is out of range; expected a number from 0 "
        "to "
        "1\n"
        "code: Training: Alpha -1 is out of range; expected a number above 0\n"
        "code: layer \"Input0\": WeightNorm is not a key of an Input layer; it belongs to Hidden "
        "and "
        "Output layers\n"
        "code: layer \"Hidden1\": pDropout 1.5 is out of range; expected a number of at least 0 "
        "and "
        "below 1\n"
        "code: layer \"Hidden1\": WeightInit: Bias nan is out of range; expected a number\n"
        "code: layer \"Output2\": BatchNormalization is not a key of an Output layer; it belongs "
        "to "
        "Hidden layers");
  }
  NetworkDescriptor sizes;
  sizes.layers.resize(2);
  sizes.layers[0].kind = LayerKind::input;
  sizes.layers[0].extent = {3, 3, 1, 1};
  sizes.layers[1].extent = {0, 1, 1, 1};
  try {
    make_graph(sizes, {}, "code");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("layer \"Hidden1\": N 0 is out of range"));
  }
}

TEST(Graph, SizesMadeInCodeMustHaveTheirDimensions) {
  const auto fault = [](int dimensions, const std::array<Index, 4>& extent) -> std::string {
    NetworkDescriptor network;
    network.layers.resize(2);
    network.layers[0].kind = LayerKind::input;
    network.layers[1].dimensions = dimensions;
    network.layers[1].extent = extent;
    try {
      make_graph(network, {}, "code");
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(fault(1, {3, 3, 1, 1}),
            "code: layer \"Hidden1\": N 3 x 3 x 1 x 1 has more extents than its 1 dimensions; the "
            "others must be 1");
  EXPECT_EQ(fault(1, {3, 0, 1, 1}),
            "code: layer \"Hidden1\": N 3 x 0 x 1 x 1: a layer needs at least one unit");
  EXPECT_THAT(fault(0, {3, 1, 1, 1}), HasSubstr("code: layer \"Hidden1\": N [] has 0 entries"));
}

TEST(Graph, NetworksMadeInCodeNeedLayersOfDifferentNames) {
  const auto fault = [](const std::vector<std::string>& names) -> std::string {
    NetworkDescriptor network;
    for (const std::string& name : names) {
      network.layers.emplace_back();
      network.layers.back().name = name;
    }
    if (!names.empty()) network.layers[0].kind = LayerKind::input;
    try {
      make_graph(network, {}, "code");
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(fault({}), "code: the network has no layers");
  EXPECT_EQ(fault({"A", "B", "A"}),
            "code: layer \"A\": Name is that of another layer, too; names of layers must differ");
}

TEST(Graph, DropoutThatIsNotAppliedIsRefusedInTraining) {
  const Graph graph = graph_of(R"({"N": 8}, {"N": 4, "Activation": "SoftMax", "pDropout": 0.5},
{"N": 2,
 "pDropout": 0.25})");
  try {
    require_runnable(graph, Use::training, "net.json");
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "net.json:1: layer \"Hidden1\": pDropout 0.5 on a SoftMax layer is not supported; "
                 "remove one of the two\n"
                 "net.json:3: layer \"Output2\": pDropout 0.25 on an Output layer is not "
                 "supported; move it to the Hidden layer before it");
  }
  EXPECT_FALSE(why_not_runnable(graph, Use::prediction).has_value());
}

TEST(Graph, SharedWeightsMustExistAndSuitTheirUsers) {
  EXPECT_EQ(
      fault_of(R"({"Name": "I", "N": 10, "DataSet": "users"}, {"Name": "A", "N": 10},
{"Name": "J", "Kind": "Input", "N": 10, "DataSet": "users"},
{"Name": "B", "N": 10, "Source": ["A", "J"], "SharedWeights":
 {"InputLayer": "J", "SourceInputLayer": "I", "SourceOutputLayer": "A", "Transposed": true}},
{"Name": "O", "N": 3})"),
      "net:3: layer \"B\": SharedWeights: a sparse input cannot use the same matrix both ways "
      "round; remove one of the two");
  EXPECT_EQ(fault_of(R"({"Name": "I", "N": 8}, {"Name": "A", "N": 8}, {"Name": "B", "N": 8},
{"Name": "O", "N": 8, "Source": "A", "SharedWeights":
 {"InputLayer": "A", "SourceInputLayer": "A", "SourceOutputLayer": "B"}})"),
            "net:2: layer \"O\": SharedWeights name a connection of a layer that leads to no "
            "Output");
}

}  // namespace
}  // namespace norn
