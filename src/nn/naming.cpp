// SPDX-License-Identifier: Apache-2.0
// Defaults of names and sources; extents as text.
#include "src/nn/naming.h"

#include "src/nn/key_builders.h"

#include <fmt/format.h>

namespace norn {

std::string default_layer_name(LayerKind kind, std::size_t index) {
  return rules_of(kind).name + std::to_string(index);
}

void fill_names_and_sources(NetworkDescriptor& network) {
  std::vector<LayerDescriptor>& layers = network.layers;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].name.empty()) layers[i].name = default_layer_name(layers[i].kind, i);
  for (std::size_t i = 1; i < layers.size(); ++i)
    if (layers[i].kind != LayerKind::input && layers[i].sources.empty())
      layers[i].sources = {layers[i - 1].name};
}

std::string extent_text(const Index* extent, int dimensions) {
  return fmt::format("{}", fmt::join(extent, extent + dimensions, " x "));
}

std::string extent_fault(const LayerDescriptor& layer) {
  const std::string text = extent_text(layer.extent.data(), 4);
  double units = 1;
  for (int axis = 0; axis < 4; ++axis) {
    const Index extent = layer.extent[std::size_t(axis)];
    if (extent < 1) return fmt::format("N {}: a layer needs at least one unit", text);
    if (axis >= layer.dimensions && extent > 1)
      return fmt::format("N {} has more extents than its {} dimensions; the others must be 1", text,
                         layer.dimensions);
    units *= double(extent);
  }
  if (units > keys::kMostUnits)
    return fmt::format("N {} is {:.0f} units; a layer has at most {:.0f}",
                       extent_text(layer.extent.data(), layer.dimensions), units, keys::kMostUnits);
  return "";
}

}  // namespace norn
