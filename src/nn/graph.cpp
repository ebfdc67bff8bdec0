// SPDX-License-Identifier: Apache-2.0
// Resolving a descriptor: names, order, edges and sizes.
#include "src/nn/graph.h"

#include "kernels/named_variant.h"
#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/nn/graph_parts.h"
#include "src/nn/key_check.h"
#include "src/nn/layer.h"
#include "src/nn/naming.h"
#include "src/nn/shapes.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include <fmt/format.h>

namespace norn {
namespace {

using graph_parts::Faults;
using graph_parts::KnownSizes;
using graph_parts::LayerNumbers;

bool is_computed_size(const LayerDescriptor& layer) {
  return rules_of(layer.type).infer_shape && layer.kind != LayerKind::input;
}

// What a reader can take in of a network with very many layers.
constexpr std::size_t kMostNames = 100;

// "; did you mean "Hidden"? Layers: Input, Hidden", for an error that is shown.
std::string known_layers(const NetworkDescriptor& network, const std::string& name) {
  std::vector<std::string> names;
  for (const LayerDescriptor& layer : network.layers) names.push_back(layer.name);
  const std::string hint = did_you_mean(name, names);
  std::string rest;
  if (names.size() > kMostNames) {
    rest = fmt::format(" and {} more", names.size() - kMostNames);
    names.resize(kMostNames);
  }
  return fmt::format("{} Layers: {}{}", hint.empty() ? "." : hint, join(names), rest);
}

// The number of a layer named by Source or Skip, or -1 with an error.
int find_layer(const NetworkDescriptor& network, const LayerNumbers& numbers,
               const LayerDescriptor& layer, const char* key, const std::string& name,
               Faults& faults) {
  const int found = numbers.of(name);
  if (found >= 0) return found;
  const bool shown = faults.problems().size() < ProblemsError::kMostShown;
  faults.add(layer, key,
             fmt::format("{} \"{}\" is not a layer{}", key, name,
                         shown ? known_layers(network, name) : std::string()));
  return -1;
}

void connect(Graph& graph, Faults& faults) {
  const std::size_t count = graph.network.layers.size();
  graph.sources.resize(count);
  graph.destinations.resize(count);
  std::vector<Edge> skips;
  const auto add = [&](const Edge& edge) {
    graph.sources[std::size_t(edge.destination)].push_back(int(graph.edges.size()));
    graph.destinations[std::size_t(edge.source)].push_back(int(graph.edges.size()));
    graph.edges.push_back(edge);
  };
  const LayerNumbers numbers(graph.network);
  for (std::size_t i = 0; i < count; ++i) {
    const LayerDescriptor& layer = graph.network.layers[i];
    if (layer.kind != LayerKind::input && layer.sources.empty())
      faults.add(layer, "",
                 "has no Source; the first layer is an Input layer, or names its source");
    std::set<std::string> seen;
    for (const std::string& name : layer.sources) {
      if (!seen.insert(name).second)
        faults.add(layer, "Source", fmt::format("Source names \"{}\" twice", name));
      const int source = find_layer(graph.network, numbers, layer, "Source", name, faults);
      if (source >= 0) add({source, int(i), rules_of(layer.type).edges});
    }
    for (const std::string& name : layer.skips) {
      const int source = find_layer(graph.network, numbers, layer, "Skip", name, faults);
      if (source >= 0) skips.push_back({source, int(i), EdgeKind::skip});
    }
    const int features = layer.features.empty() ? -1 : numbers.of(layer.feature_layer());
    if (features >= 0) skips.push_back({features, int(i), EdgeKind::features});
  }
  for (const Edge& skip : skips) add(skip);
}

// The layers that must be computed before a layer.
std::vector<int> inputs_of(const Graph& graph, int layer) {
  std::vector<int> inputs;
  for (int edge : graph.sources[std::size_t(layer)])
    inputs.push_back(graph.edges[std::size_t(edge)].source);
  return inputs;
}

// Every layer that is left has an input that is left, so walking upwards comes round.
void report_cycle(const Graph& graph, const std::vector<bool>& done, Faults& faults) {
  const auto& layers = graph.network.layers;
  std::vector<int> path;
  int at = int(std::find(done.begin(), done.end(), false) - done.begin());
  for (std::vector<bool> seen(done.size()); !seen[std::size_t(at)];) {
    path.push_back(at);
    seen[std::size_t(at)] = true;
    for (int input : inputs_of(graph, at))
      if (!done[std::size_t(input)]) at = input;
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  // Begin with the cycle's first layer in the file and go downwards, from source to destination.
  std::reverse(path.begin(), path.end());
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  std::string text;
  for (int layer : path) text += layers[std::size_t(layer)].name + " -> ";
  faults.add(fmt::format("the layers form a cycle: {}{}; remove one of these connections", text,
                         layers[std::size_t(path[0])].name));
}

void sort_layers(Graph& graph, Faults& faults) {
  const std::size_t count = graph.network.layers.size();
  std::vector<int> missing(count);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    missing[i] = int(inputs_of(graph, int(i)).size());
    if (missing[i] == 0) ready.push(int(i));
  }
  std::vector<bool> done(count, false);
  const auto feed = [&](int destination) {
    if (--missing[std::size_t(destination)] == 0) ready.push(destination);
  };
  while (!ready.empty()) {
    const int layer = ready.top();
    ready.pop();
    graph.order.push_back(layer);
    done[std::size_t(layer)] = true;
    for (int edge : graph.destinations[std::size_t(layer)])
      feed(graph.edges[std::size_t(edge)].destination);
  }
  if (graph.order.size() < count) report_cycle(graph, done, faults);
}

// The edges into a layer that its Source names.
std::vector<int> named_sources(const Graph& graph, int layer) {
  std::vector<int> edges = graph.sources[std::size_t(layer)];
  std::erase_if(edges, [&](int e) { return graph.edges[std::size_t(e)].by_unit(); });
  return edges;
}

// Sizes that follow from those of sources, as far as their sources' are known. What follows from
// a wrong size is no error of its own.
void infer_shapes(Graph& graph, KnownSizes& known, Faults& faults) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    const LayerDescriptor& layer = graph.network.layers[i];
    known[i] = !layer.auto_size && !is_computed_size(layer) && extent_fault(layer).empty();
  }
  for (int number : graph.order) {
    const auto at = std::size_t(number);
    LayerDescriptor& layer = graph.network.layers[at];
    if (!is_computed_size(layer)) continue;
    std::vector<const LayerDescriptor*> sources;
    const std::vector<int> edges = named_sources(graph, number);
    bool complete = layer.sources.size() == edges.size();
    for (int edge : edges) {
      const auto source = std::size_t(graph.edges[std::size_t(edge)].source);
      complete = complete && known[source];
      sources.push_back(&graph.network.layers[source]);
    }
    if (!complete) continue;
    std::string fault = rules_of(layer.type).infer_shape(layer, sources);
    if (fault.empty()) fault = extent_fault(layer);
    if (!fault.empty()) faults.add(layer, rules_of(layer.type).shape_key, fault);
    known[at] = fault.empty();
  }
}

// More weights than can be counted, let alone stored.
void check_weight_counts(const Graph& graph, const KnownSizes& known, Faults& faults) {
  constexpr double kMostWeights = 0x1p50;
  for (const Edge& edge : graph.edges) {
    const auto source = std::size_t(edge.source), destination = std::size_t(edge.destination);
    if (!edge.has_weights() || !known[source] || !known[destination]) continue;
    const LayerDescriptor& from = graph.network.layers[source];
    const LayerDescriptor& to = graph.network.layers[destination];
    if (to.type == LayerType::convolutional) {
      const Window window = window_of(to, from);
      double weights = double(window.channels) * double(channels_of(to));
      for (const Index kernel : window.kernel) weights *= double(kernel);
      if (weights > kMostWeights)
        faults.add(to, "Kernel",
                   fmt::format("Kernel: {} filters over the {} channels of layer \"{}\" have "
                               "{:.3g} weights; make Kernel smaller",
                               channels_of(to), window.channels, from.name, weights));
      continue;
    }
    const double weights = double(from.units()) * double(to.units());
    if (weights > kMostWeights)
      faults.add(to, "N",
                 fmt::format("N: {} units after the {} of layer \"{}\" make {:.3g} weights; give "
                             "one of the two fewer units",
                             to.units(), from.units(), from.name, weights));
  }
}

// What layers of a type that adds nothing up cannot have.
void check_idle_keys(const Graph& graph, Faults& faults) {
  for (const LayerDescriptor& layer : graph.network.layers) {
    const LayerTypeRules& type = rules_of(layer.type);
    const bool is_computed = layer.kind == LayerKind::hidden || layer.kind == LayerKind::output;
    if (type.has_activation || !is_computed) continue;
    const auto* f = std::get_if<Activation>(&layer.activation);
    if (!f || !std::holds_alternative<Linear>(*f))
      faults.add(layer, "Activation",
                 fmt::format("Activation {}: a {} layer has none; remove the key, or give it to a "
                             "layer behind this one",
                             f ? name_of(*f) : SoftMax::name, type.name));
    if (!layer.skips.empty())
      faults.add(layer, "Skip",
                 fmt::format("Skip \"{}\": a {} layer adds nothing up; give Skip to a layer in "
                             "front of or behind this one",
                             layer.skips[0], type.name));
  }
}

void check_names(const NetworkDescriptor& network, Faults& faults) {
  if (network.layers.empty()) faults.add("the network has no layers");
  bool input = network.layers.empty();
  std::set<std::string> seen;
  for (const LayerDescriptor& layer : network.layers) {
    input = input || layer.kind == LayerKind::input;
    if (!seen.insert(layer.name).second)
      faults.add(layer, "Name", "Name is that of another layer, too; names of layers must differ");
  }
  if (!input) faults.add("the network has no Input layer");
}

void find_unused(Graph& graph) {
  const auto& layers = graph.network.layers;
  std::vector<bool> used(layers.size(), false);
  bool output = false;
  for (auto it = graph.order.rbegin(); it != graph.order.rend(); ++it) {
    const auto at = std::size_t(*it);
    used[at] = used[at] || layers[at].kind == LayerKind::output;
    output = output || layers[at].kind == LayerKind::output;
    if (!used[at]) continue;
    for (int input : inputs_of(graph, *it)) used[std::size_t(input)] = true;
  }
  for (std::size_t i = 0; output && i < layers.size(); ++i)
    if (!used[i]) graph.unused.push_back(int(i));
}

// Layers that can be described, but not computed.
void find_idle_kinds(const Graph& graph, Faults& faults) {
  const auto& layers = graph.network.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerDescriptor& layer = layers[i];
    if (layer.kind == LayerKind::target)
      faults.add(layer, "Kind", "Kind Target has no meaning in training or prediction; use Output");
    if (layer.kind != LayerKind::output || graph.destinations[i].empty()) continue;
    const int fed = graph.edges[std::size_t(graph.destinations[i][0])].destination;
    faults.add(layer, "Kind",
               fmt::format("an Output layer cannot feed layer \"{}\": its values are used up block "
                           "by block and never kept whole; make it a Hidden layer, or feed layer "
                           "\"{}\" from its sources",
                           layers[std::size_t(fed)].name, layers[std::size_t(fed)].name));
  }
}

// Dropout that no kernel applies.
void find_idle_dropout(const Graph& graph, Faults& faults) {
  for (const LayerDescriptor& layer : graph.network.layers) {
    if (layer.dropout == 0.0f) continue;
    if (layer.kind == LayerKind::output)
      faults.add(layer, "pDropout",
                 fmt::format("pDropout {} on an Output layer is not supported; move it to the "
                             "Hidden layer before it",
                             layer.dropout));
    else if (layer.kind == LayerKind::hidden && std::holds_alternative<SoftMax>(layer.activation))
      faults.add(
          layer, "pDropout",
          fmt::format("pDropout {} on a SoftMax layer is not supported; remove one of the two",
                      layer.dropout));
  }
}

// A norm over weights that other layers change, too.
void find_shared_norms(const Graph& graph, Faults& faults) {
  std::vector<bool> has_users(graph.edges.size());
  for (const Edge& edge : graph.edges)
    if (edge.shared_with >= 0) has_users[std::size_t(edge.shared_with)] = true;
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const Edge& edge = graph.edges[e];
    const LayerDescriptor& layer = graph.network.layers[std::size_t(edge.destination)];
    if (layer.weight_norm == 0.0f || (edge.shared_with < 0 && !has_users[e])) continue;
    const std::string& source = graph.network.layers[std::size_t(edge.source)].name;
    if (edge.shared_with >= 0)
      faults.add(layer, "WeightNorm",
                 fmt::format("WeightNorm {} would bound weights from layer \"{}\" that belong to "
                             "another connection; give it to that connection's layer, or remove it",
                             layer.weight_norm, source));
    else if (graph.matrices(edge.destination).size() > 1)
      faults.add(layer, "WeightNorm",
                 fmt::format("WeightNorm {} would bound weights from several sources together, and "
                             "others share those from layer \"{}\"; remove one of the two",
                             layer.weight_norm, source));
  }
}

Faults faults_in_use(const Graph& graph, Use use, const std::string& where) {
  Faults faults(where, graph.network);
  find_idle_kinds(graph, faults);
  graph_parts::find_idle_windows(graph, faults);
  if (use == Use::training) {
    find_idle_dropout(graph, faults);
    graph_parts::find_idle_on_channels(graph, faults);
    find_shared_norms(graph, faults);
    graph_parts::find_idle_factors(graph, faults);
  }
  return faults;
}

// Whether every source that is named has been found.
bool is_connected(const Graph& graph) {
  for (std::size_t i = 0; i < graph.sources.size(); ++i)
    if (named_sources(graph, int(i)).size() != graph.network.layers[i].sources.size()) return false;
  return true;
}

// All that is wrong at once: each stage looks at what the ones before it have left whole. Without
// data sets whatever depends on them is passed over.
void resolve(Graph& graph, const std::vector<DatasetShape>* datasets, const std::string& where) {
  Faults faults(where, graph.network);
  fill_names_and_sources(graph.network);
  for (const std::string& fault : keys::descriptor_faults(graph.network)) faults.add(fault);
  check_names(graph.network, faults);
  faults.throw_any();
  connect(graph, faults);
  check_idle_keys(graph, faults);
  if (datasets) graph_parts::bind_datasets(graph, *datasets, faults);
  for (const LayerDescriptor& layer : graph.network.layers)
    if (const std::string fault = extent_fault(layer); !fault.empty())
      faults.add(layer, "N", fault);
  sort_layers(graph, faults);
  KnownSizes known(graph.network.layers.size());
  infer_shapes(graph, known, faults);
  check_weight_counts(graph, known, faults);
  const std::vector<DatasetShape> none;
  graph_parts::check_widths(graph, datasets ? *datasets : none, known, faults);
  graph_parts::check_edges_by_unit(graph, datasets ? *datasets : none, known, faults);
  graph_parts::check_windows(graph, datasets ? *datasets : none, faults);
  graph_parts::check_weighting(graph, datasets ? *datasets : none, faults);
  graph_parts::check_entry_weights(graph, datasets ? *datasets : none, faults);
  graph_parts::check_features(graph, datasets != nullptr, known, faults);
  graph_parts::check_factors(graph, datasets ? *datasets : none, faults);
  graph_parts::check_augmentation(graph, datasets ? *datasets : none, known, faults);
  // A connection whose source is misspelt is missing, which is no error of its own.
  if (is_connected(graph)) graph_parts::resolve_shared_weights(graph, known, faults);
  faults.throw_any();
}

}  // namespace

int Graph::layer(const std::string& name) const {
  for (std::size_t i = 0; i < network.layers.size(); ++i)
    if (network.layers[i].name == name) return int(i);
  return -1;
}

EdgeMatrix matrix_of(const Graph& graph, int edge) {
  const Edge& e = graph.edges[std::size_t(edge)];
  return matrix_between(graph.network.layers[std::size_t(e.destination)],
                        graph.network.layers[std::size_t(e.source)]);
}

Index channels_together(const Graph& graph, int number) {
  const LayerDescriptor& layer = graph.network.layers[std::size_t(number)];
  const std::vector<int>& sources = graph.sources[std::size_t(number)];
  if (sources.empty()) return layer.units();
  const int source = graph.edges[std::size_t(sources[0])].source;
  if (layer.type == LayerType::convolutional) return channels_of(layer);
  if (layer.function == PoolingFunction::maxout) return channels_together(graph, source);
  if (!has_window(layer)) return layer.units();
  const Window window = window_of(layer, graph.network.layers[std::size_t(source)]);
  return window.channels == 1 ? layer.units() : window.channels;
}

std::vector<int> Graph::matrices(int layer) const {
  std::vector<int> found = sources[std::size_t(layer)];
  std::erase_if(found, [this](int edge) { return !edges[std::size_t(edge)].has_weights(); });
  return found;
}

int image_axes(const Graph& graph, int layer) {
  int axes = std::min(2, graph.network.layers[std::size_t(layer)].dimensions);
  for (const int edge : graph.destinations[std::size_t(layer)]) {
    const Edge& e = graph.edges[std::size_t(edge)];
    const LayerDescriptor& to = graph.network.layers[std::size_t(e.destination)];
    if (to.type == LayerType::convolutional && e.has_weights())
      axes = std::min(axes, to.dimensions - 1);
    if (to.type == LayerType::pooling && to.kernel_dimensions > 0)
      axes = std::min(axes, to.kernel_dimensions);
  }
  return axes;
}

bool augments(const NetworkDescriptor& network, const std::string& dataset) {
  return std::ranges::any_of(network.layers, [&](const LayerDescriptor& layer) {
    return layer.kind == LayerKind::input && layer.dataset == dataset && layer.augment.is_on();
  });
}

bool needs_dense_units(const NetworkDescriptor& network, const std::string& source) {
  return std::ranges::any_of(network.layers, [&](const LayerDescriptor& layer) {
    const LayerTypeRules& rules = rules_of(layer.type);
    return std::ranges::count(layer.skips, source) > 0 ||
           ((rules.has_window || rules_of(rules.edges).by_unit) &&
            std::ranges::count(layer.sources, source) > 0);
  });
}

Graph make_graph(NetworkDescriptor network, const std::vector<DatasetShape>& datasets,
                 const std::string& where) {
  Graph graph;
  graph.network = std::move(network);
  resolve(graph, &datasets, where);
  find_unused(graph);
  Faults faults(where, graph.network);
  graph_parts::check_shared_weights(graph, datasets, faults);
  faults.throw_any();
  return graph;
}

void check_network(const NetworkDescriptor& network, const std::string& where) {
  Graph graph;
  graph.network = network;
  resolve(graph, nullptr, where);
}

std::vector<Problem> graph_parts::unknown_names(const NetworkDescriptor& network,
                                                const std::string& where) {
  const LayerNumbers numbers(network);
  Faults faults(where, network);
  for (const LayerDescriptor& layer : network.layers) {
    for (const std::string& name : layer.sources)
      find_layer(network, numbers, layer, "Source", name, faults);
    for (const std::string& name : layer.skips)
      find_layer(network, numbers, layer, "Skip", name, faults);
  }
  return faults.problems();
}

void require_runnable(const Graph& graph, Use use, const std::string& where) {
  faults_in_use(graph, use, where).throw_any();
}

std::optional<std::string> why_not_runnable(const Graph& graph, Use use) {
  const Faults faults = faults_in_use(graph, use, "");
  if (faults.problems().empty()) return std::nullopt;
  return faults.problems().front().message;
}

Problem problem_of(const NetworkDescriptor& network, std::size_t number, const std::string& key,
                   const std::string& message, const std::string& where) {
  const LayerDescriptor& layer = network.layers[number];
  Problem problem{where, 0, 0, {}, fmt::format("layer \"{}\": {}", layer.name, message)};
  for (const std::string& name : {key, std::string()}) {
    const auto found = layer.places.find(name);
    if (found == layer.places.end()) continue;
    problem.line = found->second.line;
    problem.column = found->second.column;
    break;
  }
  problem.key = fmt::format("Layers[{}]{}{}", number, key.empty() ? "" : ".", key);
  return problem;
}

}  // namespace norn
