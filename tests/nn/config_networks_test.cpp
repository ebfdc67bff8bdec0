// SPDX-License-Identifier: Apache-2.0
// The networks in configs/: what they are, and that each of their keys is refused when it is wrong.
#include "norn/base/error.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/graph.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<DatasetShape> kMovies = {{"gl_input", 1, {27278, 1, 1}, true},
                                           {"gl_output", 1, {27278, 1, 1}, true}};

std::string text_of(const std::string& config) {
  std::ifstream file(std::filesystem::path(NORN_SOURCE_DIR) / "configs" / config);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << config;
  return text.str();
}

Graph graph_of(const std::string& config, const std::vector<DatasetShape>& data) {
  return make_graph(parse_network_json(text_of(config), config), data, config);
}

std::array<Index, 4> extent_of(const Graph& graph, const std::string& layer) {
  const LayerDescriptor* found = graph.network.find(layer);
  return found ? found->extent : std::array<Index, 4>{};
}

TEST(ConfigNetworks, Autoencoder) {
  const Graph graph = graph_of("dsstne/autoencoder.json", kMovies);
  EXPECT_FALSE(why_not_runnable(graph, Use::training).has_value());
  const NetworkDescriptor& d = graph.network;
  EXPECT_EQ(d.kind, NetworkKind::auto_encoder);
  EXPECT_FALSE(d.shuffle);
  EXPECT_EQ(d.sparseness.p, 0.5f);
  EXPECT_EQ(d.sparseness.beta, 2.0f);
  EXPECT_EQ(d.denoising, 0.2f);
  const auto& loss = std::get<ScaledMarginalCrossEntropy>(d.loss);
  EXPECT_EQ(loss.one_target, 1.0f);
  EXPECT_EQ(loss.zero_target, 0.0f);
  ASSERT_EQ(d.layers.size(), 3u);
  EXPECT_TRUE(d.layers[0].sparse && d.layers[1].sparse);
  EXPECT_EQ(d.layers[1].units(), 128);
  EXPECT_EQ(d.layers[2].units(), 27278);
  EXPECT_THAT(d.layers[2].sources, ElementsAre("Hidden"));
}

TEST(ConfigNetworks, MovieLens1536) {
  const Graph graph = graph_of("dsstne/movielens_1536.json", kMovies);
  EXPECT_FALSE(why_not_runnable(graph, Use::training).has_value());
  ASSERT_EQ(graph.network.layers.size(), 5u);
  for (int hidden = 1; hidden <= 3; ++hidden) {
    const LayerDescriptor& layer = graph.network.layers[std::size_t(hidden)];
    EXPECT_EQ(layer.units(), 1536);
    EXPECT_EQ(layer.dropout, 0.37f);
    EXPECT_TRUE(std::holds_alternative<Relu>(std::get<Activation>(layer.activation)));
    EXPECT_EQ(std::get<Gaussian>(layer.init.scheme).scale, 0.01f);
  }
  EXPECT_EQ(graph.network.layers[4].init.bias, -10.2f);
  EXPECT_TRUE(
      std::holds_alternative<Sigmoid>(std::get<Activation>(graph.network.layers[4].activation)));
}

TEST(ConfigNetworks, Quickstart) {
  const Graph graph = graph_of("quickstart.json", {{"packages_input", 1, {900, 1, 1}, true},
                                                   {"packages_output", 1, {900, 1, 1}, true}});
  EXPECT_FALSE(why_not_runnable(graph, Use::training).has_value());
  EXPECT_TRUE(std::holds_alternative<SoftMax>(graph.network.layers.back().activation));
  EXPECT_EQ(graph.network.target_weight, TargetWeight::one);
  EXPECT_EQ(graph.network.layers[0].normalize, InputNormalization::l2);
}

// Weights of the layers of a type, by the matrices of the graph.
Index weights_of(const Graph& graph, LayerType type) {
  Index sum = 0;
  for (std::size_t e = 0; e < graph.edges.size(); ++e)
    if (graph.edges[e].has_weights() &&
        graph.network.layers[std::size_t(graph.edges[e].destination)].type == type)
      sum += matrix_of(graph, int(e)).size();
  return sum;
}

std::vector<DatasetShape> images(Index side, Index classes) {
  return {{"input", 3, {side, side, 3}, false}, {"output", 1, {classes, 1, 1}, true}};
}

TEST(ConfigNetworks, AlexNet) {
  const Graph graph = graph_of("dsstne/alexnet.json", images(227, 1000));
  EXPECT_THAT(extent_of(graph, "Hidden1"), ElementsAre(55, 55, 96, 1));
  EXPECT_THAT(extent_of(graph, "Hidden2"), ElementsAre(55, 55, 96, 1));
  EXPECT_THAT(extent_of(graph, "Hidden3"), ElementsAre(27, 27, 96, 1));
  EXPECT_THAT(extent_of(graph, "Hidden4"), ElementsAre(27, 27, 256, 1));
  EXPECT_THAT(extent_of(graph, "Hidden6"), ElementsAre(13, 13, 256, 1));
  EXPECT_THAT(extent_of(graph, "Hidden8"), ElementsAre(13, 13, 384, 1));
  EXPECT_THAT(extent_of(graph, "Hidden10"), ElementsAre(6, 6, 256, 1));
  EXPECT_THAT(extent_of(graph, "Hidden12"), ElementsAre(4096, 1, 1, 1));
  EXPECT_EQ(weights_of(graph, LayerType::convolutional),
            11 * 11 * 3 * 96 + 5 * 5 * 96 * 256 + 9 * (256 * 384 + 384 * 384 + 384 * 256));
  EXPECT_EQ(weights_of(graph, LayerType::fully_connected), 9216 * 4096 + 4096 * 4096 + 4096 * 1000);
  EXPECT_EQ(why_not_runnable(graph, Use::training), std::nullopt);
}

TEST(ConfigNetworks, Vgg16) {
  const Graph graph = graph_of("dsstne/vgg16.json", {});
  EXPECT_THAT(extent_of(graph, "Conv1_2"), ElementsAre(224, 224, 64, 1));
  EXPECT_THAT(extent_of(graph, "Pool3"), ElementsAre(28, 28, 256, 1));
  EXPECT_THAT(extent_of(graph, "Pool5"), ElementsAre(7, 7, 512, 1));
  EXPECT_EQ(weights_of(graph, LayerType::convolutional),
            9 * (3 * 64 + 64 * 64 + 64 * 128 + 128 * 128 + 128 * 256 + 2 * 256 * 256 + 256 * 512 +
                 5 * 512 * 512));
  EXPECT_EQ(weights_of(graph, LayerType::fully_connected),
            25088 * 4096 + 4096 * 4096 + 4096 * 1000);
  const auto convolutions = std::count_if(
      graph.network.layers.begin(), graph.network.layers.end(), [](const LayerDescriptor& layer) {
        return layer.type == LayerType::convolutional && layer.kind == LayerKind::hidden;
      });
  EXPECT_EQ(convolutions, 13);
  EXPECT_EQ(why_not_runnable(graph, Use::training), std::nullopt);
}

TEST(ConfigNetworks, Cifar100) {
  const Graph graph = graph_of("dsstne/cifar100.json", {{"input", 3, {32, 32, 3}, false}});
  EXPECT_THAT(extent_of(graph, "Conv1_2"), ElementsAre(32, 32, 64, 1));
  EXPECT_THAT(extent_of(graph, "Pool3"), ElementsAre(4, 4, 256, 1));
  EXPECT_EQ(why_not_runnable(graph, Use::training), std::nullopt);
}

TEST(ConfigNetworks, Strawman) {
  const Graph graph = graph_of("dsstne/strawman.json", images(32, 100));
  EXPECT_THAT(extent_of(graph, "Hidden2"), ElementsAre(32, 32, 96, 1));
  EXPECT_THAT(extent_of(graph, "Hidden3"), ElementsAre(15, 15, 96, 1));
  EXPECT_THAT(extent_of(graph, "Hidden6"), ElementsAre(7, 7, 192, 1));
  EXPECT_EQ(weights_of(graph, LayerType::convolutional),
            9 * (3 * 96 + 2 * 96 * 96 + 96 * 192 + 2 * 192 * 192));
  EXPECT_EQ(weights_of(graph, LayerType::fully_connected), 7 * 7 * 192 * 100);
  for (const int strided : {3, 6}) {
    const LayerDescriptor& layer = graph.network.layers[std::size_t(strided)];
    EXPECT_EQ(layer.init.bias, 0.1f);
    EXPECT_EQ(layer.dropout, 0.5f);
    EXPECT_EQ(std::get<Gaussian>(layer.init.scheme).scale, 0.04f);
  }
}

TEST(ConfigNetworks, Cifar10) {
  const Graph graph = graph_of("dsstne/cifar10.json", images(32, 10));
  EXPECT_THAT(extent_of(graph, "C1a"), ElementsAre(32, 32, 128, 1));
  EXPECT_THAT(extent_of(graph, "P1"), ElementsAre(15, 15, 128, 1));
  EXPECT_THAT(extent_of(graph, "P2"), ElementsAre(6, 6, 128, 1));
  EXPECT_THAT(extent_of(graph, "P3"), ElementsAre(3, 3, 96, 1));
  EXPECT_EQ(weights_of(graph, LayerType::convolutional),
            49 * (3 * 128 + 3 * 128 * 128) + 25 * (128 * 96 + 96 * 96));
  EXPECT_EQ(weights_of(graph, LayerType::fully_connected), 864 * 1024 + 1024 * 10);
}

/// One `"Key": value` of a text.
struct Place {
  std::size_t key;  ///< of its opening quote
  std::string name;
  std::size_t value;
  std::size_t end;  ///< after the value
  int line;
};

std::size_t end_of_value(const std::string& text, std::size_t at) {
  if (text[at] == '"') return text.find('"', at + 1) + 1;
  if (text[at] == '[' || text[at] == '{') {
    int depth = 0;
    do {
      depth += text[at] == '[' || text[at] == '{';
      depth -= text[at] == ']' || text[at] == '}';
      ++at;
    } while (depth > 0);
    return at;
  }
  return text.find_first_of(",} \n", at);
}

// Good enough for the texts in configs/: no escapes, no quotes in comments.
std::vector<Place> places_of(const std::string& text) {
  std::vector<Place> places;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos;) {
    const std::size_t close = text.find('"', at + 1);
    const std::size_t colon = text.find_first_not_of(' ', close + 1);
    if (text[colon] == ':') {
      const std::size_t value = text.find_first_not_of(" \n", colon + 1);
      const int line = 1 + int(std::count(text.begin(), text.begin() + long(at), '\n'));
      places.push_back(
          {at, text.substr(at + 1, close - at - 1), value, end_of_value(text, value), line});
    }
    at = close + 1;
  }
  return places;
}

/// The text with `count` characters from `at` on replaced.
std::string with(std::string_view text, std::size_t at, std::size_t count, std::string_view by) {
  return fmt::format("{}{}{}", text.substr(0, at), by, text.substr(at + count));
}

std::string error_of(const std::string& text) {
  try {
    make_graph(parse_network_json(text, "net.json"), kMovies, "net.json");
    return "none";
  } catch (const UsageError& error) {
    return error.what();
  }
}

class MutatedNetworks : public testing::TestWithParam<const char*> {};

TEST_P(MutatedNetworks, AMisspeltKeyIsNamedWithTheRightOne) {
  const std::string text = text_of(GetParam());
  ASSERT_EQ(error_of(text), "none");
  std::size_t tried = 0;
  for (const Place& place : places_of(text)) {
    const bool short_name = place.name.size() < 3;  // nothing is near to those
    const std::string name = short_name ? fmt::format("{}zzz", place.name)
                                        : fmt::format("{}{}", place.name, place.name.back());
    const std::string wrong = with(text, place.key + 1, place.name.size(), name);
    SCOPED_TRACE(place.name);
    const std::string error = error_of(wrong);
    EXPECT_THAT(error, HasSubstr(fmt::format("net.json:{}: ", place.line)));
    if (short_name)
      EXPECT_THAT(error, HasSubstr(fmt::format("unknown key \"{}\". Known: ", name)));
    else
      EXPECT_THAT(error, HasSubstr(fmt::format("unknown key \"{}\"; did you mean \"{}\"?", name,
                                               place.name)));
    ++tried;
  }
  EXPECT_GT(tried, 25u);
}

TEST_P(MutatedNetworks, AValueOfTheWrongTypeIsNamedWithTheRightType) {
  const std::string text = text_of(GetParam());
  for (const Place& place : places_of(text)) {
    for (const std::string value : {"{\"x\": 1}", "[[]]", "null", "-1.5"}) {
      const char was = text[place.value];
      const bool any_number = place.name == "Bias" || place.name == "Scale";
      if (value == "-1.5" && any_number) continue;
      const std::string wrong = with(text, place.value, place.end - place.value, value);
      SCOPED_TRACE(fmt::format("{} {}", place.name, value));
      const std::string error = error_of(wrong);
      EXPECT_THAT(error, HasSubstr(fmt::format("net.json:{}: ", place.line)));
      if (value == "{\"x\": 1}" && (was == '{' || place.name == "Layers"))
        EXPECT_THAT(error, HasSubstr(": unknown key \"x\". Known: "));
      else if (value == "[[]]" && place.name == "Layers")
        EXPECT_THAT(error, HasSubstr("Layers: entry 0 is []; expected an object"));
      else
        EXPECT_THAT(error, HasSubstr("; expected "));
    }
  }
}

TEST_P(MutatedNetworks, AnUnknownWordOrNameIsNamedWithTheKnownOnes) {
  const std::string text = text_of(GetParam());
  for (const Place& place : places_of(text)) {
    if (text[place.value] != '"') continue;
    if (place.name == "Name") continue;  // any text is a name
    const std::string wrong = with(text, place.value + 2, 0, "q");
    SCOPED_TRACE(place.name);
    const std::string error = error_of(wrong);
    const std::string value = wrong.substr(place.value, place.end + 1 - place.value);
    EXPECT_THAT(error, HasSubstr(value));
    EXPECT_THAT(error,
                testing::AnyOf(HasSubstr(" is unknown"), HasSubstr(" is not a layer"),
                               HasSubstr(" is not among the data"), HasSubstr("or \"auto\"")));
  }
}

TEST_P(MutatedNetworks, AKeyOfAnotherLevelIsRefused) {
  const std::string text = text_of(GetParam());
  for (const Place& place : places_of(text)) {
    if (place.name != "Kind" || text.compare(place.value, 7, "\"Input\"") != 0) continue;
    const std::string wrong = with(text, place.key, 0, "\"Activation\": \"Relu\", ");
    EXPECT_EQ(
        error_of(wrong),
        fmt::format("net.json:{}: layer \"Input\": Activation is not a key of an Input layer; "
                    "it belongs to Hidden and Output layers",
                    place.line));
  }
}

INSTANTIATE_TEST_SUITE_P(FullyConnected, MutatedNetworks,
                         testing::Values("dsstne/autoencoder.json", "dsstne/movielens_1536.json"),
                         [](const auto& each) {
                           return std::filesystem::path(each.param).stem().string();
                         });

}  // namespace
}  // namespace norn
