// SPDX-License-Identifier: Apache-2.0
// Which layers by example stand in bf16 alone, and what their products fill of tiles.
#include "src/step/layers/window_tiles.h"
#include "src/step/tensors.h"
#include "tests/step/step_settings.h"
#include "tests/support/recipes.h"

#include <map>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace norn::step::test {
namespace {

using norn::test::all_recipes;
using norn::test::Recipe;

// Facts keep a reference to their graph.
struct Planned {
  Planned(const Recipe& recipe, bool in_bf16, Pass purpose)
      : graph(make_graph(recipe.network, recipe.shapes(), "test")),
        facts(graph, settings(recipe, graph, in_bf16, purpose)),
        tensors(facts) {}
  static StepSettings settings(const Recipe& recipe, const Graph& graph, bool in_bf16,
                               Pass purpose) {
    StepSettings settings = training_settings(recipe, graph);
    settings.purpose = purpose;
    settings.device.is_host = false;
    settings.device.precision = Precision::bf16;
    settings.device.computes_in_bf16 = in_bf16;
    return settings;
  }
  const Graph graph;
  const StepFacts facts;
  const StepTensors tensors;
};

// By name: whether outputs and deltas stand in bf16 alone.
std::map<std::string, std::string> alone(const Planned& planned) {
  std::map<std::string, std::string> found;
  for (int layer : planned.facts.order()) {
    const bool rows = planned.facts.rows_in_bf16(layer), delta = planned.facts.delta_in_bf16(layer);
    if (rows || delta)
      found[planned.facts.layer(layer).name] =
          fmt::format("{}{}", rows ? "rows" : "", delta ? " delta" : "");
  }
  return found;
}

TEST(Bf16Layers, AreThoseThatConvolutionsAndPoolingsAloneRead) {
  const Recipe recipe = norn::test::wide_convolution_recipe();
  using Names = std::map<std::string, std::string>;
  const Names expected{{"First", "rows delta"},     {"Second", "rows delta"},
                       {"Responses", "rows delta"}, {"Largest", "rows delta"},
                       {"Folded", "rows delta"},    {"Mean", "rows"}};
  EXPECT_EQ(alone({recipe, true, Pass::training}), expected);
  EXPECT_EQ(alone({recipe, false, Pass::training}), Names{});
  Names predicted = alone({recipe, true, Pass::prediction});
  for (const auto& [name, what] : predicted) EXPECT_EQ(what, "rows") << name;
  EXPECT_EQ(predicted.size(), 7u);  // the last convolution too, whose slope nobody needs
}

TEST(Bf16Layers, KeepFloatsForWhatReadsThem) {
  const auto without = [](const char* name, const auto& change) {
    Recipe recipe = norn::test::wide_convolution_recipe();
    for (LayerDescriptor& layer : recipe.network.layers)
      if (layer.name == name) change(layer);
    const auto found = alone({recipe, true, Pass::training});
    return !found.contains(name);
  };
  EXPECT_TRUE(without("First", [](auto& layer) { layer.activation = Activation(Sigmoid{}); }));
  EXPECT_TRUE(without("First", [](auto& layer) { layer.batch_normalization = true; }));
  EXPECT_TRUE(without("First", [](auto& layer) { layer.extent[0] = 24; }));
  EXPECT_TRUE(without("First", [](auto& layer) { layer.extent[0] = 36; }));
  EXPECT_TRUE(without("First", [](auto& layer) {  // what dropout left out is not flat
    layer.activation = Activation(LeakyRelu{0.1f});
  }));
  EXPECT_FALSE(without("First", [](auto& layer) { layer.extent[0] = 200; }));
}

// A layer has floats or stands in bf16 alone, and a device that does not compute so has floats.
TEST(Bf16Layers, HaveOneArrayOfEach) {
  int layers = 0;
  for (const Recipe& recipe : all_recipes())
    for (const Pass purpose : {Pass::training, Pass::prediction}) {
      const Planned planned(recipe, true, purpose);
      for (int layer : planned.facts.order()) {
        if (!planned.facts.is_hidden(layer)) continue;
        const UnitLayer& unit = *planned.tensors.units[layer];
        const auto has = [](const auto& array) { return array.tensor().bytes() > 0; };
        SCOPED_TRACE(recipe.name + ", " + planned.facts.layer(layer).name);
        EXPECT_EQ(has(unit.activations), !planned.facts.rows_in_bf16(layer));
        if (planned.facts.rows_in_bf16(layer)) {
          EXPECT_TRUE(has(unit.bf16_rows));
        }
        if (purpose != Pass::training) continue;
        EXPECT_EQ(has(unit.deltas), !planned.facts.delta_in_bf16(layer));
        if (planned.facts.delta_in_bf16(layer)) {
          EXPECT_TRUE(has(unit.bf16_deltas));
        }
        layers += planned.facts.delta_in_bf16(layer);
      }
    }
  EXPECT_GT(layers, 0);
}

TEST(Bf16Layers, FillAShareOfTheirTiles) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  using enum WindowProduct;
  for (int round = 0; round < 50; ++round) {
    Recipe recipe = norn::test::wide_convolution_recipe();
    for (LayerDescriptor& layer : recipe.network.layers)
      if (layer.type == LayerType::convolutional && layer.kind == LayerKind::hidden)
        layer.extent[0] = Index(1 + random() % 40) * 8;
    const Planned planned(recipe, true, Pass::training);
    for (int edge = 0; edge < planned.facts.edges(); ++edge) {
      if (!planned.facts.is_convolution(planned.facts.edge(edge).destination)) continue;
      for (const WindowProduct product : {outputs, input_delta, gradient}) {
        const double share = tiles_filled(planned.facts, edge, product);
        EXPECT_GT(share, 0.0) << edge;
        EXPECT_LE(share, 1.0) << edge;
      }
    }
  }
  Recipe whole = norn::test::wide_convolution_recipe();
  whole.network.layers[1].extent[0] = 64;
  whole.network.layers[2].extent[0] = 128;
  const Planned planned(whole, true, Pass::training);
  const int second = planned.facts.matrices(2)[0];
  EXPECT_DOUBLE_EQ(tiles_filled(planned.facts, second, outputs), 1.0);
}

// Floats have boxes of half as many channels; gradients are not multiplied in such tiles.
TEST(Bf16Layers, LeaveTilesOfFloatsToTf32) {
  using enum WindowProduct;
  const auto share = [](Index channels, Index filters, bool in_tf32, WindowProduct product) {
    Recipe recipe = norn::test::wide_convolution_recipe();
    recipe.network.layers[1].extent[0] = channels;
    recipe.network.layers[2].extent[0] = filters;
    const Graph graph = make_graph(recipe.network, recipe.shapes(), "test");
    StepSettings settings = Planned::settings(recipe, graph, !in_tf32, Pass::training);
    settings.device.precision = in_tf32 ? Precision::tf32 : Precision::bf16;
    const StepFacts facts(graph, settings);
    return tiles_filled(facts, facts.matrices(2)[0], product);
  };
  EXPECT_DOUBLE_EQ(share(64, 128, true, outputs), 1.0);
  EXPECT_DOUBLE_EQ(share(96, 128, true, outputs), 1.0);
  EXPECT_DOUBLE_EQ(share(96, 128, false, outputs), 1.0);
  EXPECT_DOUBLE_EQ(share(72, 128, false, outputs), 0.75);
  EXPECT_DOUBLE_EQ(share(40, 128, true, outputs), 40.0 / 48.0);
  EXPECT_DOUBLE_EQ(share(64, 64, true, outputs), share(64, 64, false, outputs));
  EXPECT_LT(share(64, 64, true, outputs), 1.0);
  EXPECT_LT(share(64, 128, true, input_delta), 1.0);
  EXPECT_DOUBLE_EQ(share(40, 72, true, gradient), 1.0);
}

}  // namespace
}  // namespace norn::step::test
