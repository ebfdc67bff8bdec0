// SPDX-License-Identifier: Apache-2.0
// Data sets, skips and shared weights of a graph.
#include "src/nn/graph_parts.h"

#include "kernels/named_variant.h"
#include "src/nn/layer.h"
#include "src/nn/naming.h"

#include <algorithm>

namespace norn::graph_parts {
namespace {

const DatasetShape* find_dataset(const std::vector<DatasetShape>& datasets,
                                 const std::string& name) {
  const auto found = std::find_if(datasets.begin(), datasets.end(),
                                  [&](const DatasetShape& each) { return each.name == name; });
  return found == datasets.end() ? nullptr : &*found;
}

std::string known_datasets(const std::string& name, const std::vector<DatasetShape>& datasets) {
  std::vector<std::string> names;
  for (const DatasetShape& each : datasets) names.push_back(each.name);
  if (names.empty()) return "; there are no data sets";
  const std::string hint = did_you_mean(name, names);
  return fmt::format("{} Data sets: {}", hint.empty() ? "." : hint, join(names));
}

Index units_of(const DatasetShape& dataset) {
  return dataset.extent[0] * dataset.extent[1] * dataset.extent[2];
}

int find_edge(const Graph& graph, const LayerNumbers& numbers, const std::string& source,
              const std::string& destination) {
  const int from = numbers.of(source);
  const int to = numbers.of(destination);
  if (to < 0) return -1;
  for (int e : graph.sources[std::size_t(to)])
    if (graph.edges[std::size_t(e)].source == from && graph.edges[std::size_t(e)].has_weights())
      return e;
  return -1;
}

const LayerDescriptor& layer_at(const Graph& graph, int number) {
  return graph.network.layers[std::size_t(number)];
}

// "Hidden1 -> Output (128 x 1000)", "Conv1 -> Conv2 (192 filters of 3 x 3 over 96 channels)".
std::string edge_text(const Graph& graph, const Edge& edge) {
  const LayerDescriptor& from = layer_at(graph, edge.source);
  const LayerDescriptor& to = layer_at(graph, edge.destination);
  if (to.type != LayerType::convolutional)
    return fmt::format("{} -> {} ({} x {})", from.name, to.name, from.units(), to.units());
  const Window window = window_of(to, from);
  return fmt::format("{} -> {} ({} filters of {} over {} channels)", from.name, to.name,
                     channels_of(to), extent_text(window.kernel.data(), to.dimensions - 1),
                     window.channels);
}

// Whether two edges can have one matrix, the other way round if `transposed`.
bool fit(const Graph& graph, const Edge& a, const Edge& b, bool transposed) {
  const LayerDescriptor &from = layer_at(graph, a.source), &to = layer_at(graph, a.destination);
  const LayerDescriptor &from2 = layer_at(graph, b.source), &to2 = layer_at(graph, b.destination);
  if (to.type != to2.type) return false;
  if (to.type != LayerType::convolutional)
    return from.units() == (transposed ? to2 : from2).units() &&
           to.units() == (transposed ? from2 : to2).units();
  const Window w = window_of(to, from), w2 = window_of(to2, from2);
  return !transposed && channels_of(to) == channels_of(to2) && w.channels == w2.channels &&
         w.kernel == w2.kernel;
}

void share(Graph& graph, const LayerNumbers& numbers, const LayerDescriptor& layer,
           const SharedWeights& shared, const KnownSizes& known, Faults& faults) {
  const auto fail = [&](const std::string& message) {
    faults.add(layer, "SharedWeights", "SharedWeights: " + message);
  };
  const int own = find_edge(graph, numbers, shared.input_layer, layer.name);
  if (own < 0)
    return fail(fmt::format("InputLayer \"{}\" is not a source of it; sources: {}",
                            shared.input_layer, join(layer.sources)));
  const int from = find_edge(graph, numbers, shared.source_input_layer, shared.source_output_layer);
  if (from < 0)
    return fail(
        fmt::format("there is no connection {} -> {} to share; SourceInputLayer must be a source "
                    "of SourceOutputLayer",
                    shared.source_input_layer, shared.source_output_layer));
  Edge& edge = graph.edges[std::size_t(own)];
  const Edge& source = graph.edges[std::size_t(from)];
  if (own == from)
    return fail(
        fmt::format("{} -> {} would share its own weights", shared.input_layer, layer.name));
  if (edge.shared_with >= 0)
    return fail(fmt::format("InputLayer \"{}\" is given twice", shared.input_layer));
  for (const int end : {edge.source, edge.destination, source.source, source.destination})
    if (!known[std::size_t(end)]) return;  // its size cannot be told, or is wrong itself
  if (!fit(graph, edge, source, shared.transposed)) {
    const bool other_way = fit(graph, edge, source, !shared.transposed);
    return fail(fmt::format(
        "{} cannot use the weights of {}{}; {}", edge_text(graph, edge), edge_text(graph, source),
        shared.transposed ? " transposed" : "",
        other_way ? (shared.transposed ? "remove \"Transposed\"" : "add \"Transposed\": true")
                  : "the sizes must be the same"));
  }
  edge.shared_with = from;
  edge.transposed = shared.transposed;
}

}  // namespace

void Faults::add(const LayerDescriptor& layer, const std::string& key, const std::string& message) {
  problems_.push_back(
      problem_of(network_, std::size_t(&layer - network_.layers.data()), key, message, where_));
}

void bind_datasets(Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults) {
  for (LayerDescriptor& layer : graph.network.layers) {
    if (!layer.auto_size) continue;
    if (layer.dataset.empty()) {
      faults.add(layer, "N",
                 "N \"auto\" needs a DataSet to take the width from; name one, or give a number of "
                 "units");
      continue;
    }
    const DatasetShape* dataset = find_dataset(datasets, layer.dataset);
    if (!dataset) {
      faults.add(layer, "DataSet",
                 fmt::format("N \"auto\": DataSet \"{}\" is not among the data{}", layer.dataset,
                             known_datasets(layer.dataset, datasets)));
      continue;
    }
    layer.dimensions = dataset->dimensions;
    layer.extent = {dataset->extent[0], dataset->extent[1], dataset->extent[2], 1};
    layer.auto_size = false;
  }
}

void check_widths(const Graph& graph, const std::vector<DatasetShape>& datasets,
                  const KnownSizes& known, Faults& faults) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    const LayerDescriptor& layer = graph.network.layers[i];
    const DatasetShape* dataset = find_dataset(datasets, layer.dataset);
    if (layer.dataset.empty() || !dataset || !known[i]) continue;
    const std::string units = extent_text(layer.extent.data(), layer.dimensions);
    const std::string width = extent_text(dataset->extent.data(), dataset->dimensions);
    if (layer.units() < units_of(*dataset))
      faults.add(layer, "N",
                 fmt::format("N is {}, but data set \"{}\" is {} wide; N must not be smaller "
                             "(\"auto\" takes the data set's width)",
                             units, dataset->name, width));
    else if (layer.dimensions > 1 && dataset->dimensions > 1 &&
             !std::equal(dataset->extent.begin(), dataset->extent.end(), layer.extent.begin()))
      faults.add(layer, "N",
                 fmt::format("N is {}, but data set \"{}\" is {}; they must be the same, or N "
                             "\"auto\"",
                             units, dataset->name, width));
  }
}

void check_edges_by_unit(const Graph& graph, const std::vector<DatasetShape>& datasets,
                         const KnownSizes& known, Faults& faults) {
  for (const Edge& edge : graph.edges) {
    if (!edge.by_unit() || edge.from_all()) continue;
    const LayerDescriptor& layer = layer_at(graph, edge.destination);
    const LayerDescriptor& from = layer_at(graph, edge.source);
    const char* key = rules_of(edge.kind).key;
    const bool sizes = known[std::size_t(edge.destination)] && known[std::size_t(edge.source)];
    if (sizes && from.units() != layer.units())
      faults.add(layer, key,
                 fmt::format("{} \"{}\" has {} units, this layer has {}; they must be the same",
                             key, from.name, from.units(), layer.units()));
    const DatasetShape* dataset = find_dataset(datasets, from.dataset);
    if (from.kind == LayerKind::input && dataset && dataset->gives_sparse_batches)
      faults.add(layer, key,
                 fmt::format("{} \"{}\" is an Input layer with sparse data; only dense activations "
                             "can be added",
                             key, from.name));
  }
}

void check_windows(const Graph& graph, const std::vector<DatasetShape>& datasets, Faults& faults) {
  for (const Edge& edge : graph.edges) {
    const LayerDescriptor& layer = layer_at(graph, edge.destination);
    const LayerDescriptor& from = layer_at(graph, edge.source);
    if (!rules_of(layer.type).has_window || edge.by_unit()) continue;
    const DatasetShape* dataset = find_dataset(datasets, from.dataset);
    if (from.kind == LayerKind::input && dataset && dataset->gives_sparse_batches)
      faults.add(layer, "Source",
                 fmt::format("Source \"{}\" has data set \"{}\", which is sparse, and a {} layer "
                             "reads dense data; import it as dense, or put a FullyConnected layer "
                             "between them",
                             from.name, dataset->name, rules_of(layer.type).name));
  }
}

namespace {

// Whether channels stand together at the places of a hidden layer.
bool has_places(const Graph& graph, int number) {
  const LayerDescriptor& layer = layer_at(graph, number);
  return layer.kind == LayerKind::hidden && channels_together(graph, number) != layer.units();
}

// An edge into a Convolutional layer, or into a Pooling layer with a window.
void find_idle_window(const Graph& graph, const Edge& edge, Faults& faults) {
  const LayerDescriptor& layer = layer_at(graph, edge.destination);
  const LayerDescriptor& source = layer_at(graph, edge.source);
  const Index channels = channels_together(graph, edge.source);
  if (!edge.by_unit()) {
    // Channels stand together where they are computed, so no window goes over them.
    if (has_places(graph, edge.source) && window_of(layer, source).channels != channels)
      faults.add(
          layer, "Kernel",
          fmt::format("Kernel has {} numbers, and would go over the {} channels of layer "
                      "\"{}\", which is {}; that is not supported: give it {}",
                      layer.type == LayerType::convolutional ? layer.dimensions - 1
                                                             : layer.kernel_dimensions,
                      channels, source.name, extent_text(source.extent.data(), source.dimensions),
                      source.dimensions - 1));
  } else if (source.kind != LayerKind::hidden || !has_window(source) ||
             source.extent != layer.extent || channels != channels_of(layer)) {
    faults.add(layer, "Skip",
               fmt::format("a skip into a Convolutional layer comes from a hidden layer with "
                           "windows and its size, {}, which \"{}\" is not; remove it",
                           extent_text(layer.extent.data(), layer.dimensions), source.name));
  }
}

}  // namespace

void find_idle_windows(const Graph& graph, Faults& faults) {
  for (const LayerDescriptor& layer : graph.network.layers) {
    const LayerTypeRules& type = rules_of(layer.type);
    if (!type.has_window || layer.kind == LayerKind::input) continue;
    if (layer.kind == LayerKind::output)
      faults.add(layer, "Kind",
                 fmt::format("a {} Output layer is not supported; make it a Hidden layer, with a "
                             "FullyConnected Output layer behind it",
                             type.name));
    if (type.has_activation && std::holds_alternative<SoftMax>(layer.activation))
      faults.add(layer, "Activation",
                 "Activation on a Convolutional layer is not supported; SoftMax is for "
                 "FullyConnected layers: put one behind this layer");
  }
  for (const Edge& edge : graph.edges)
    if (has_window(layer_at(graph, edge.destination))) find_idle_window(graph, edge, faults);
}

void find_idle_on_channels(const Graph& graph, Faults& faults) {
  for (const LayerDescriptor& layer : graph.network.layers) {
    if (!rules_of(layer.type).has_window || layer.kind == LayerKind::input) continue;
    const auto refuse = [&](const char* key, const std::string& next_step) {
      faults.add(layer, key,
                 fmt::format("{} on a {} layer is not supported; {}", key,
                             rules_of(layer.type).name, next_step));
    };
    if (layer.delta_norm > 0.0f)
      refuse("DeltaNorm", "remove it, or give it to the FullyConnected layers behind this one");
    if (sparseness_of(graph.network, layer).beta > 0.0f)
      refuse("SparsenessPenalty", "remove \"Sparse\" from this layer");
  }
}

void check_weighting(const Graph& graph, const std::vector<DatasetShape>& datasets,
                     Faults& faults) {
  for (const LayerDescriptor& layer : graph.network.layers) {
    const DatasetShape* dataset = find_dataset(datasets, layer.dataset);
    if (!weights_features(layer.input_weighting) || !dataset || dataset->gives_sparse_batches)
      continue;
    faults.add(layer, "InputWeighting",
               fmt::format("InputWeighting {} is for sparse data, and data set \"{}\" is dense: "
                           "every example has every feature; remove the key, or import the data "
                           "as sparse",
                           name_of(layer.input_weighting), dataset->name));
  }
}

void check_entry_weights(const Graph& graph, const std::vector<DatasetShape>& datasets,
                         Faults& faults) {
  for (const LayerDescriptor& layer : graph.network.layers) {
    const EntryWeights& weights = layer.entry_weights;
    if (!weights.is_on()) continue;
    const char* scheme = name_of(weights.scheme);
    const auto idle = [&](const char* parameter, float value) {
      faults.add(layer, "EntryWeights",
                 fmt::format("EntryWeights: {} {} has no effect with Scheme {}; remove it",
                             parameter, value, scheme));
    };
    if (weights.scheme == EntryWeightScheme::value && weights.alpha != EntryWeights{}.alpha)
      idle("Alpha", weights.alpha);
    if (weights.scheme != EntryWeightScheme::log && weights.epsilon != EntryWeights{}.epsilon)
      idle("Epsilon", weights.epsilon);
    const DatasetShape* dataset = find_dataset(datasets, layer.dataset);
    if (!dataset || dataset->gives_sparse_batches) continue;
    faults.add(layer, "EntryWeights",
               fmt::format("EntryWeights {} is for sparse targets, and data set \"{}\" is dense: "
                           "its values are targets; remove the key, or import the data as sparse",
                           scheme, dataset->name));
  }
}

void check_augmentation(const Graph& graph, const std::vector<DatasetShape>& datasets,
                        const KnownSizes& known, Faults& faults) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    const LayerDescriptor& layer = graph.network.layers[i];
    if (!layer.augment.is_on()) continue;
    const DatasetShape* dataset = find_dataset(datasets, layer.dataset);
    const auto fail = [&](const std::string& message) {
      faults.add(layer, "Augment", "Augment " + message);
    };
    if (dataset && dataset->gives_sparse_batches) {
      fail(
          fmt::format("is for images, which are dense, and data set \"{}\" is sparse; remove the "
                      "key, or import the data as dense",
                      dataset->name));
      continue;
    }
    if (!known[i]) continue;
    const std::string size = extent_text(layer.extent.data(), layer.dimensions);
    if (dataset && units_of(*dataset) < layer.units()) {
      fail(fmt::format(
          "needs images as large as the layer, but N is {} and data set \"{}\" is {}; "
          "give N the data set's size",
          size, dataset->name, extent_text(dataset->extent.data(), dataset->dimensions)));
      continue;
    }
    // The narrower of the axes along which they move; one of a single unit stays.
    const std::size_t axis =
        image_axes(graph, int(i)) > 1 && layer.extent[1] > 1 && layer.extent[1] < layer.extent[0];
    if (const Index width = layer.extent[axis]; layer.augment.crop >= width)
      fail(
          fmt::format("Crop {} would move images of {} units along {} out of sight: N is {}; "
                      "give Crop less than {}",
                      layer.augment.crop, width, "xy"[axis], size, width));
  }
}

void resolve_shared_weights(Graph& graph, const KnownSizes& known, Faults& faults) {
  const LayerNumbers numbers(graph.network);
  for (const LayerDescriptor& layer : graph.network.layers)
    for (const SharedWeights& shared : layer.shared_weights)
      share(graph, numbers, layer, shared, known, faults);
  const std::vector<Edge> direct = graph.edges;
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    int owner = int(e);
    bool transposed = false;
    std::size_t steps = 0;
    while (direct[std::size_t(owner)].shared_with >= 0 && steps <= direct.size()) {
      transposed ^= direct[std::size_t(owner)].transposed;
      owner = direct[std::size_t(owner)].shared_with;
      ++steps;
    }
    if (steps > direct.size()) {
      faults.add(layer_at(graph, direct[e].destination), "SharedWeights",
                 "SharedWeights lead round in a circle; one connection must own the weights");
      return;
    }
    if (steps == 0) continue;
    graph.edges[e].shared_with = owner;
    graph.edges[e].transposed = transposed;
  }
}

void check_shared_weights(const Graph& graph, const std::vector<DatasetShape>& datasets,
                          Faults& faults) {
  const auto is_used = [&](int layer) {
    return std::find(graph.unused.begin(), graph.unused.end(), layer) == graph.unused.end();
  };
  const auto is_sparse = [&](int layer) {
    const DatasetShape* dataset = find_dataset(datasets, layer_at(graph, layer).dataset);
    return dataset && dataset->gives_sparse_batches;
  };
  std::vector<std::optional<bool>> transposed(
      graph.edges.size());  // by owner: as sparse inputs want it
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const Edge& edge = graph.edges[e];
    const auto owner = edge.shared_with >= 0 ? std::size_t(edge.shared_with) : e;
    const LayerDescriptor& layer = layer_at(graph, edge.destination);
    if (is_used(edge.destination) && !is_used(graph.edges[owner].destination))
      faults.add(layer, "SharedWeights",
                 "SharedWeights name a connection of a layer that leads to no Output");
    if (!is_sparse(edge.source)) continue;
    if (transposed[owner].value_or(edge.transposed) != edge.transposed)
      faults.add(layer, "SharedWeights",
                 "SharedWeights: a sparse input cannot use the same matrix both ways round; remove "
                 "one of the two");
    transposed[owner] = edge.transposed;
  }
}

}  // namespace norn::graph_parts
