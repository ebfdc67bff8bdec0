// SPDX-License-Identifier: Apache-2.0
// WeightNorm of layers with several sources, sparse, dense and hidden: the norm of all of a unit's
// weights together.
#include "tests/support/gradient_check.h"
#include "tests/support/recipes.h"

#include <cmath>

#include <fmt/format.h>

namespace norn::test {
namespace {

constexpr double kLimit = 1.1;

Problem several_sources(bool sparse) {
  Problem problem;
  problem.network.layers = {
      input_layer("In", 9), input_layer("Else", 5), hidden_layer("Hidden", 7, {"In", "Else"}),
      output_layer("Out", 8, {"Hidden", "In", "Else"}, Activation(Sigmoid{}))};
  problem.planned_batch = 6;
  problem.set_data("In", {.sparse = sparse}, 6, 1);
  problem.set_data("Else", {.sparse = !sparse}, 6, 2);
  problem.set_data("Out", {}, 6, 3);
  return problem;
}

TEST(WeightNorm, CapsTheWeightsFromAllSourcesTogether) {
  for (const bool sparse : {true, false}) {
    SCOPED_TRACE(sparse);
    const Problem problem = several_sources(sparse);
    Problem capped = problem;
    capped.network.layers[2].weight_norm = capped.network.layers[3].weight_norm = float(kLimit);
    const reference::Network network(problem.network, problem.planned_batch, Pass::training);
    const auto parameters = random_parameters(network, 9);
    const reference::Parameters free = engine_step(problem, parameters).after;
    const reference::Parameters held = engine_step(capped, parameters).after;
    int shortened = 0, kept = 0;
    const auto compare = [&](std::size_t first_edge, std::size_t edges, std::size_t units) {
      for (std::size_t j = 0; j < units; ++j) {
        double squares = 0.0;
        for (std::size_t e = first_edge; e < first_edge + edges; ++e)
          for (std::size_t i = j; i < free.weight[e].size(); i += units)
            squares += free.weight[e][i] * free.weight[e][i];
        const double factor = std::min(1.0, kLimit / std::sqrt(squares));
        ++(factor < 1.0 ? shortened : kept);
        for (std::size_t e = first_edge; e < first_edge + edges; ++e)
          for (std::size_t i = j; i < free.weight[e].size(); i += units)
            EXPECT_NEAR(held.weight[e][i], factor * free.weight[e][i], 1e-6);
      }
    };
    compare(0, 2, 7);
    compare(2, 3, 8);
    EXPECT_GT(shortened, 0);
    EXPECT_EQ(shortened + kept, 15);
  }
}

TEST(WeightNorm, OverSeveralSourcesHasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  for (const std::size_t number : {5, 6}) {
    Recipe recipe = all_recipes().at(number);
    for (LayerDescriptor& layer : recipe.network.layers)
      if (layer.kind != LayerKind::input) layer.weight_norm = 0.3f;
    SCOPED_TRACE(recipe.name);
    const Outcome one = run(recipe, 7, 1, 1);
    EXPECT_TRUE(same_bits(one, run(recipe, 7, 1, 3)));
    EXPECT_TRUE(same_bits(one, run(recipe, 7, 2, 1)));
    EXPECT_TRUE(same_bits(one, run(recipe, 7, 3, 2)));
    Recipe free = recipe;
    for (LayerDescriptor& layer : free.network.layers) layer.weight_norm = 0.0f;
    EXPECT_NE(one.state, run(free, 7, 1, 1).state);
  }
}

// Whether a network can be trained in which the output uses the hidden layer's weights the other
// way round.
std::optional<std::string> fault_of(float of_hidden, float of_output, bool several, Use use) {
  NetworkDescriptor network;
  network.layers = {input_layer("In", 9), input_layer("Else", 5), hidden_layer("Hidden", 7, {"In"}),
                    output_layer("Out", 9, {"Hidden"})};
  if (several) network.layers[2].sources.push_back("Else");
  network.layers[2].weight_norm = of_hidden;
  network.layers[3].weight_norm = of_output;
  network.layers[3].shared_weights = {{"Hidden", "In", "Hidden", true}};
  const std::vector<DatasetShape> shapes = several_sources(true).shapes();
  network.layers[3].dataset = "In";
  return why_not_runnable(make_graph(network, shapes, "test"), use);
}

TEST(WeightNorm, OfSharedWeightsThatItCannotBoundIsRefused) {
  EXPECT_EQ(fault_of(0.5f, 0.0f, false, Use::training), std::nullopt);
  EXPECT_EQ(
      fault_of(0.0f, 0.5f, false, Use::training),
      "layer \"Out\": WeightNorm 0.5 would bound weights from layer \"Hidden\" that belong to "
      "another connection; give it to that connection's layer, or remove it");
  EXPECT_EQ(
      fault_of(0.5f, 0.0f, true, Use::training),
      "layer \"Hidden\": WeightNorm 0.5 would bound weights from several sources together, and "
      "others share those from layer \"In\"; remove one of the two");
  EXPECT_EQ(fault_of(0.5f, 0.5f, true, Use::prediction), std::nullopt);
}

}  // namespace
}  // namespace norn::test
