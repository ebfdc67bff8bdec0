// SPDX-License-Identifier: Apache-2.0
// Which edges are shared out by source units.
#include "src/step/sharding.h"

#include "tests/support/problem.h"

#include <gtest/gtest.h>

namespace norn::test {
namespace {

// In -> Wide (20,000) -> Narrow (128) -> Out (50,000).
NetworkDescriptor wide_to_narrow() {
  NetworkDescriptor network;
  network.layers = {input_layer("In", 300), hidden_layer("Wide", 20'000, {"In"}),
                    hidden_layer("Narrow", 128, {"Wide"}), output_layer("Out", 50'000, {"Narrow"})};
  return network;
}

Sharding choose(const NetworkDescriptor& network, Index batch = 1024,
                const BlockRule& rule = BlockRule{}) {
  std::vector<DatasetShape> shapes;
  for (const LayerDescriptor& layer : network.layers)
    if (!layer.dataset.empty()) shapes.push_back({layer.dataset, 1, {layer.units(), 1, 1}, true});
  const Graph graph = make_graph(network, shapes, "test");
  std::vector<bool> takes_part(network.layers.size(), true);
  for (int layer : graph.unused) takes_part[std::size_t(layer)] = false;
  const Sharding sharding = choose_sharding(graph, takes_part, batch, rule);
  EXPECT_EQ(sharding.by_source.size(), graph.edges.size());
  EXPECT_EQ(sharding.gathered.size(), network.layers.size());
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    if (!takes_part[std::size_t(graph.edges[e].destination)]) continue;
    if (!graph.edges[e].has_weights()) {
      EXPECT_FALSE(sharding.by_source[e]);
      continue;
    }
    EXPECT_NE(sharding.by_source[e], sharding.gathered[std::size_t(graph.edges[e].source)]);
  }
  return sharding;
}

using Gathered = std::vector<bool>;
const Gathered kAllGathered = {true, true, true, true};

TEST(Sharding, IsBySourceFromAWideHiddenLayerToANarrowOne) {
  const Sharding sharding = choose(wide_to_narrow());
  EXPECT_EQ(sharding.gathered, (Gathered{true, false, true, true}));
  EXPECT_EQ(sharding.by_source, (std::vector<bool>{false, true, false}));
}

TEST(Sharding, IsBySourceToANarrowOutputLayer) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers.pop_back();
  network.layers[2] = output_layer("Out", 1000, {"Wide"});
  EXPECT_EQ(choose(network).gathered, (Gathered{true, false, true}));
}

TEST(Sharding, GoesBySizesAlone) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers[2].extent[0] = 5000;
  EXPECT_EQ(choose(network).gathered, (Gathered{true, false, true, true}));
  network.layers[2].extent[0] = 5001;  // not four times narrower
  EXPECT_EQ(choose(network).gathered, kAllGathered);
  network.layers[2].extent[0] = 128;
  EXPECT_EQ(choose(network, 53).gathered, (Gathered{true, false, true, true}));
  EXPECT_EQ(choose(network, 52).gathered, kAllGathered);  // little to gather
  BlockRule rule;
  rule.gathered_elements = 1;
  EXPECT_EQ(choose(network, 1, rule).gathered, (Gathered{true, false, true, true}));
}

TEST(Sharding, OfASourceIsThatOfAllItsEdges) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers[3].sources = {"Narrow", "Wide"};  // reads all activations
  EXPECT_EQ(choose(network).gathered, kAllGathered);
  network.layers[3].extent[0] = 4872;  // 5,000 together
  EXPECT_EQ(choose(network).gathered, (Gathered{true, false, true, true}));
  network.layers[3].extent[0] = 4873;
  EXPECT_EQ(choose(network).gathered, kAllGathered);
}

TEST(Sharding, IsIndifferentToLayersThatTakeNoPart) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers.push_back(hidden_layer("Blind", 60'000, {"Wide"}));
  const Sharding sharding = choose(network);
  EXPECT_FALSE(sharding.gathered[1]);
  EXPECT_EQ(sharding.by_source, (std::vector<bool>{false, true, false, false}));
}

TEST(Sharding, OfInputsIsByDestination) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers[0].extent[0] = 1'000'000;
  EXPECT_TRUE(choose(network).gathered[0]);
}

TEST(Sharding, IsByDestinationWhereRowsAreGatheredAnyway) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers[1].activation = SoftMax{};
  EXPECT_EQ(choose(network).gathered, kAllGathered);
}

TEST(Sharding, IsByDestinationWithWeightNorm) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers[2].weight_norm = 1.0f;
  EXPECT_EQ(choose(network).gathered, kAllGathered);
  network = wide_to_narrow();
  network.layers[1].weight_norm = 1.0f;  // of other weights
  EXPECT_FALSE(choose(network).gathered[1]);
}

TEST(Sharding, IsByDestinationWithSharedWeights) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers.push_back(hidden_layer("Mirror", 20'000, {"Narrow"}));
  network.layers[3].sources = {"Mirror"};
  EXPECT_FALSE(choose(network).gathered[1]);
  network.layers[4].shared_weights = {{"Narrow", "Wide", "Narrow", true}};
  EXPECT_TRUE(choose(network).gathered[1]);
}

TEST(Sharding, IsIndifferentToSkips) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers.push_back(hidden_layer("Again", 20'000, {"Narrow"}));
  network.layers[4].skips = {"Wide"};
  network.layers[3].sources = {"Again"};
  EXPECT_FALSE(choose(network).gathered[1]);
}

TEST(Sharding, IsByDestinationWhereASkipLeadsToOtherBlocks) {
  NetworkDescriptor network = wide_to_narrow();
  network.layers[3] = output_layer("Out", 20'000, {"Narrow"});
  network.layers[3].skips = {"Wide"};
  EXPECT_FALSE(choose(network).gathered[1]);  // both are cut alike
  BlockRule rule;
  rule.minimum_width = 8192;
  rule.maximum_width = 65536;
  rule.minimum_hidden_width = 32;
  EXPECT_EQ(choose(network, 1024, rule).gathered, kAllGathered);
}

}  // namespace
}  // namespace norn::test
