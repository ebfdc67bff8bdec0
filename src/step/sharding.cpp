// SPDX-License-Identifier: Apache-2.0
// Sharing out by source or by destination units.
#include "src/step/sharding.h"

#include "src/nn/layer.h"

namespace norn {
namespace {

constexpr Index kClearlyWider = 4;

class Chooser {
 public:
  Chooser(const Graph& graph, const std::vector<bool>& takes_part,
          const std::vector<LayerLayout>& layouts)
      : graph_(graph),
        takes_part_(takes_part),
        layouts_(layouts),
        shares_(graph.edges.size(), false) {
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      const int owner = graph.edges[e].shared_with;
      if (owner >= 0) shares_[e] = shares_[std::size_t(owner)] = true;
    }
  }

  bool by_source(int layer, Index batch, const BlockRule& rule) const {
    const LayerDescriptor& source = layer_of(layer);
    if (!takes_part_[std::size_t(layer)] || source.kind != LayerKind::hidden ||
        std::holds_alternative<SoftMax>(source.activation) || by_example(layer))
      return false;
    Index destinations = 0;
    for (int number : graph_.destinations[std::size_t(layer)]) {
      const Edge& edge = graph_.edges[std::size_t(number)];
      const int destination = edge.destination;
      if (!takes_part_[std::size_t(destination)]) continue;
      if (by_example(destination)) return false;
      if (edge.by_unit() && !edge.from_all() && has_blocks_of(destination, layer, batch, rule))
        continue;
      if (!edge.has_weights()) return false;
      if (shares_[std::size_t(number)] || layer_of(destination).weight_norm > 0.0f ||
          layer_of(destination).factored.is_on())
        return false;
      destinations += layer_of(destination).units();
    }
    return destinations > 0 && source.units() >= kClearlyWider * destinations &&
           source.units() >= (rule.gathered_elements + batch - 1) / batch;
  }

 private:
  bool by_example(int layer) const {
    return !layouts_.empty() && layouts_[std::size_t(layer)].layout == Layout::by_example;
  }
  // So that a rank has the same units of both.
  bool has_blocks_of(int layer, int other, Index batch, const BlockRule& rule) const {
    return partition_of(layer_of(layer), batch, rule).block_width() ==
           partition_of(layer_of(other), batch, rule).block_width();
  }
  const LayerDescriptor& layer_of(int layer) const {
    return graph_.network.layers[std::size_t(layer)];
  }
  const Graph& graph_;
  const std::vector<bool>& takes_part_;
  const std::vector<LayerLayout>& layouts_;
  std::vector<bool> shares_;  // by edge: its weights with another
};

}  // namespace

Sharding choose_sharding(const Graph& graph, const std::vector<bool>& takes_part, Index batch,
                         const BlockRule& rule, const std::vector<LayerLayout>& layouts) {
  const Chooser chooser(graph, takes_part, layouts);
  Sharding sharding;
  sharding.by_source.assign(graph.edges.size(), false);
  for (std::size_t layer = 0; layer < graph.network.layers.size(); ++layer) {
    const bool by_source = chooser.by_source(int(layer), batch, rule);
    sharding.gathered.push_back(!by_source);
    if (!by_source) continue;
    for (int number : graph.destinations[layer]) {
      const Edge& edge = graph.edges[std::size_t(number)];
      sharding.by_source[std::size_t(number)] =
          edge.has_weights() && takes_part[std::size_t(edge.destination)];
    }
  }
  return sharding;
}

}  // namespace norn
