// SPDX-License-Identifier: Apache-2.0
// Features of the units of Output layers.
#include "src/nn/unit_features.h"

#include "norn/base/error.h"
#include "src/base/checksum.h"
#include "src/nn/graph_parts.h"
#include "src/nn/naming.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

namespace norn {

std::uint64_t FeatureTable::checksum() const {
  std::string words;
  for (const std::string& label : labels) words += label + '\0';
  std::uint64_t parts[] = {std::uint64_t(features), norn::checksum(words.data(), words.size()),
                           norn::checksum(row_begin.data(), row_begin.size() * sizeof(RowOffset)),
                           norn::checksum(column.data(), column.size() * sizeof(Column)),
                           norn::checksum(value.data(), value.size() * sizeof(float))};
  return norn::checksum(parts, sizeof(parts));
}

void add_features(NetworkDescriptor& network, std::size_t number,
                  std::shared_ptr<const FeatureTable> table) {
  fill_names_and_sources(network);
  const std::string name = network.layers[number].feature_layer();
  const Index features = table->features;
  const std::vector<std::string> sources = network.layers[number].sources;
  network.layers[number].feature_table = std::move(table);
  if (const LayerDescriptor* given = network.find(name)) {
    if (given->units() != features)
      throw UsageError(fmt::format(
          "layer \"{}\": N is {}, but data set \"{}\" has {} features; they must be the same", name,
          given->units(), network.layers[number].features, features));
    return;
  }
  LayerDescriptor layer;
  layer.name = name;
  layer.kind = LayerKind::hidden;
  layer.extent[0] = features;
  layer.sources = sources;
  layer.activation = Activation(Linear{});
  layer.init.scheme = Constant{0.0f};
  network.layers.push_back(std::move(layer));
}

const LayerDescriptor* has_features_from(const NetworkDescriptor& network,
                                         const LayerDescriptor& layer) {
  const auto found = std::ranges::find_if(network.layers, [&](const LayerDescriptor& output) {
    return !output.features.empty() && output.feature_layer() == layer.name;
  });
  return found == network.layers.end() ? nullptr : &*found;
}

namespace graph_parts {
namespace {

void check_table(const Graph& graph, const LayerDescriptor& layer, Faults& faults) {
  const auto fail = [&](const std::string& text) { faults.add(layer, "Features", text); };
  const FeatureTable& table = *layer.feature_table;
  const int number = graph.layer(layer.feature_layer());
  if (table.rows() > layer.units())
    return fail(fmt::format("Features \"{}\" are of {} units, and this layer has {}",
                            layer.features, table.rows(), layer.units()));
  if (number < 0)
    return fail(fmt::format("Features \"{}\" need the layer \"{}\", which is missing",
                            layer.features, layer.feature_layer()));
  const LayerDescriptor& learnt = graph.network.layers[std::size_t(number)];
  if (learnt.kind != LayerKind::hidden || learnt.type != LayerType::fully_connected ||
      learnt.units() != table.features)
    fail(
        fmt::format("Features \"{}\" need the layer \"{}\" to be a FullyConnected Hidden layer "
                    "of {} units, one a feature",
                    layer.features, learnt.name, table.features));
}

}  // namespace

void check_features(const Graph& graph, bool complete, const KnownSizes& known, Faults& faults) {
  for (std::size_t i = 0; i < known.size(); ++i) {
    const LayerDescriptor& layer = graph.network.layers[i];
    if (layer.features.empty()) continue;
    if (layer.factored.is_on())
      faults.add(layer, "Features",
                 fmt::format("Features \"{}\" and Factored exclude each other: steps of a factored "
                             "layer know of its stored targets alone; remove one of the two",
                             layer.features));
    if (graph.network.training.method == TrainingMethod::ease)
      faults.add(
          layer, "Features",
          fmt::format("Features \"{}\": EASE has no features; take another recipe, or remove "
                      "the key",
                      layer.features));
    if (layer.feature_table && known[i])
      check_table(graph, layer, faults);
    else if (complete && !layer.feature_table)
      faults.add(layer, "Features",
                 fmt::format("Features: data set \"{}\" is not among the data; give it with them, "
                             "or remove the key",
                             layer.features));
  }
}

}  // namespace graph_parts
}  // namespace norn
