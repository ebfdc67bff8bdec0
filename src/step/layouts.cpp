// SPDX-License-Identifier: Apache-2.0
// Layers by unit and by example.
#include "src/step/layouts.h"

#include "norn/base/error.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {
namespace {

class Chooser {
 public:
  Chooser(const Graph& graph, const std::vector<bool>& takes_part, const std::vector<bool>& forced)
      : graph_(graph), takes_part_(takes_part), forced_(forced), layouts_(takes_part.size()) {}

  std::vector<LayerLayout> choose(const std::vector<bool>& sparse_input) {
    for (const int layer : graph_.order) layouts_[std::size_t(layer)] = of_computed(layer);
    for (const int layer : graph_.order)
      if (layer_of(layer).kind == LayerKind::input)
        layouts_[std::size_t(layer)] = of_input(layer, sparse_input[std::size_t(layer)]);
    return std::move(layouts_);
  }

 private:
  // Sources come first.
  LayerLayout of_computed(int number) const {
    const LayerDescriptor& layer = layer_of(number);
    if (layer.kind == LayerKind::input) return {};  // until its destinations are known
    if (layer.type == LayerType::convolutional) return {Layout::by_example, "it is Convolutional"};
    if (layer.type == LayerType::pooling) return of_pooling(number);
    if (!forced_.empty() && forced_[std::size_t(number)] && layer.kind == LayerKind::hidden)
      return {Layout::by_example, "it was asked for"};
    return {Layout::by_unit, fmt::format("it is {}", rules_of(layer.type).name)};
  }

  LayerLayout of_pooling(int number) const {
    if (has_window(layer_of(number))) return {Layout::by_example, "it pools places of an example"};
    const std::vector<int>& sources = graph_.sources[std::size_t(number)];
    require(!sources.empty(), "choose_layouts: make_graph() refuses Pooling without a source");
    const int first = graph_.edges[std::size_t(sources[0])].source;
    return {layouts_[std::size_t(first)].layout,
            fmt::format("as its first source, {}", layer_of(first).name)};
  }

  LayerLayout of_input(int number, bool is_sparse) const {
    if (is_sparse) return {Layout::by_unit, "its data are sparse"};
    bool feeds = false;
    for (const int edge : graph_.destinations[std::size_t(number)]) {
      const int destination = graph_.edges[std::size_t(edge)].destination;
      if (!takes_part_[std::size_t(destination)]) continue;
      feeds = true;
      if (layouts_[std::size_t(destination)].layout == Layout::by_unit)
        return {Layout::by_unit, fmt::format("it feeds {}", layer_of(destination).name)};
    }
    if (!feeds) return {Layout::by_unit, "it feeds no layer"};
    return {Layout::by_example, "all that it feeds is by example"};
  }

  const LayerDescriptor& layer_of(int number) const {
    return graph_.network.layers[std::size_t(number)];
  }

  const Graph& graph_;
  const std::vector<bool>& takes_part_;
  const std::vector<bool>& forced_;
  std::vector<LayerLayout> layouts_;
};

}  // namespace

std::vector<LayerLayout> choose_layouts(const Graph& graph, const std::vector<bool>& takes_part,
                                        const std::vector<bool>& sparse_input,
                                        const std::vector<bool>& forced) {
  return Chooser(graph, takes_part, forced).choose(sparse_input);
}

}  // namespace norn
