// SPDX-License-Identifier: Apache-2.0
// One network of a trained one and EASE.
#include "src/engine/train/ease_beside.h"

#include "norn/base/error.h"
#include "src/engine/model/model_parts.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

const LayerDescriptor* only(const NetworkDescriptor& network, LayerKind kind) {
  if (std::ranges::count(network.layers, kind, &LayerDescriptor::kind) != 1) return nullptr;
  return &*std::ranges::find(network.layers, kind, &LayerDescriptor::kind);
}

bool feeds(const LayerDescriptor& source, const LayerDescriptor& layer) {
  return std::ranges::find(layer.sources, source.name) != layer.sources.end();
}

// Of the parameters of a network the one with the name of another network's, at the same place.
NetworkParameter& like(std::vector<NetworkParameter>& all, const NetworkParameter& one) {
  return *std::ranges::find_if(all, [&](const NetworkParameter& other) {
    return other.name == one.name && (other.matrix != nullptr) == (one.matrix != nullptr) &&
           (one.matrix || other.layer == one.layer);
  });
}

void copy_matrix(Network& from, int from_edge, Network& to, int to_edge) {
  std::vector<float> whole;
  gather_rows(from, from_edge, 0, [&](Index, MatrixView<const float> rows) {
    if (from.context().communicator.rank() != 0) return;
    for (Index r = 0; r < rows.rows; ++r)
      whole.insert(whole.end(), rows.row(r), rows.row(r) + rows.cols);
  });
  scatter_rows(to, to_edge, 0, [&](Index first, MatrixView<float> rows) {
    for (Index r = 0; r < rows.rows; ++r)
      std::copy_n(whole.data() + (first + r) * rows.cols, rows.cols, rows.row(r));
  });
}

int edge_of_ease(const Network& network) {
  const Graph& graph = network.graph();
  const int input = graph.layer(only(graph.network, LayerKind::input)->name);
  const int output = graph.layer(only(graph.network, LayerKind::output)->name);
  for (const int edge : graph.matrices(output))
    if (graph.edges[std::size_t(edge)].source == input) return edge;
  return -1;
}

}  // namespace

bool has_ease_beside(const NetworkDescriptor& network) {
  if (!(network.training.ease_weight > 0.0f)) return false;
  const LayerDescriptor* input = only(network, LayerKind::input);
  const LayerDescriptor* output = only(network, LayerKind::output);
  return input && output && feeds(*input, *output);
}

NetworkDescriptor without_ease_beside(NetworkDescriptor network) {
  if (!has_ease_beside(network)) return network;
  std::erase(std::ranges::find(network.layers, LayerKind::output, &LayerDescriptor::kind)->sources,
             only(network, LayerKind::input)->name);
  return network;
}

void require_no_ease_beside(const NetworkDescriptor& network, const std::string& where) {
  if (has_ease_beside(network))
    throw UsageError(
        fmt::format("{}: has EASE beside its network, and steps would change both; train it anew, "
                    "on all data, or "
                    "with `recipe` sigmoid a model that can be gone on with",
                    where));
}

void require_ease_beside(const NetworkDescriptor& network, const std::string& where) {
  const auto need = [&](bool holds, const char* what) {
    if (!holds)
      throw UsageError(fmt::format("{}: EaseWeight, which adds EASE's scores, {}", where, what));
  };
  const LayerDescriptor* input = only(network, LayerKind::input);
  const LayerDescriptor* output = only(network, LayerKind::output);
  need(input && input->sparse, "needs one Input layer, with \"Sparse\": true");
  need(output && !feeds(*input, *output), "needs one Output layer, not fed by the Input layer");
  need(output->shared_weights.empty() && output->weight_norm == 0.0f &&
           !output->batch_normalization && !output->factored.is_on() && output->dimensions == 1,
       "needs an Output layer with weights of its own, without WeightNorm, BatchNormalization and "
       "Factored");
  need(!output->entry_weights.is_on(), "counts every entry once: without EntryWeights");
  need(network.training.ease_lambda > 0.0f, "needs an EaseLambda above 0");
}

std::unique_ptr<Network> with_ease_beside(Network& trained, const std::vector<DatasetShape>& shapes,
                                          const std::string& where) {
  NetworkDescriptor descriptor = trained.descriptor();
  const std::string input = only(descriptor, LayerKind::input)->name;
  std::ranges::find(descriptor.layers, LayerKind::output, &LayerDescriptor::kind)
      ->sources.push_back(input);
  auto network = std::make_unique<Network>(make_graph(descriptor, shapes, where), shapes,
                                           trained.context(), trained.batch(), Pass::prediction);
  std::vector<NetworkParameter> all = network->parameters();
  for (const NetworkParameter& from : trained.parameters()) {
    NetworkParameter& to = like(all, from);
    if (from.matrix)
      copy_matrix(trained, from.edge, *network, to.edge);
    else
      scatter_units(*network, to.layer, gather_units(trained, from.layer, *from.vector),
                    *to.vector);
  }
  const int layer = network->graph().layer(input);
  if (weights_features(descriptor.layers[std::size_t(layer)].input_weighting))
    network->set_feature_weights(layer, trained.feature_weights(layer));
  network->set_unit_labels(trained.unit_labels());
  network->set_chosen(trained.chosen());
  return network;
}

void weigh_ease_beside(const Matrix<double>& inverse, double weight, Executor& executor,
                       Network& network) {
  const int edge = edge_of_ease(network);
  const int layer = network.graph().edges[std::size_t(edge)].source;
  const LayerDescriptor& input = network.descriptor().layers[std::size_t(layer)];
  std::vector<double> factors(std::size_t(input.units()), weight);
  if (weights_features(input.input_weighting)) {
    const std::vector<float> counted = network.feature_weights(layer);
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] /= double(counted[i]);
  }
  set_ease_weights(inverse, factors, executor, network, edge);
}

}  // namespace norn
