// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/memory_plan.h"
#include "src/engine/sharding.h"

#include <vector>

/// What Network's constructor decides, as numbers: what plans of memory and of time share.
namespace norn {

/// Of rank 0, which owns the most blocks of every layer. Graph and settings must outlive it.
class PlanFacts {
 public:
  PlanFacts(const Graph& graph, const PlanSettings& settings);

  bool training() const { return settings_.purpose == Pass::training; }
  const LayerDescriptor& layer_of(int layer) const {
    return graph_.network.layers[std::size_t(layer)];
  }
  bool takes_part(int layer) const { return takes_part_[std::size_t(layer)]; }
  bool is_input(int layer) const { return layer_of(layer).kind == LayerKind::input; }
  bool is_output(int layer) const { return layer_of(layer).kind == LayerKind::output; }
  bool is_softmax(int layer) const {
    return std::holds_alternative<SoftMax>(layer_of(layer).activation);
  }
  const BlockPartition& partition(int layer) const { return partitions_[std::size_t(layer)]; }
  Index mine(int layer) const { return partition(layer).units_of(0, settings_.ranks).count(); }
  Index my_blocks(int layer) const {
    return partition(layer).blocks_of(0, settings_.ranks).count();
  }
  /// Whether a SoftMax layer's pre-activations stay between its passes.
  bool keeps_z(int layer) const;
  /// Whether a hidden layer needs the delta of its activations.
  bool wants_delta(int layer) const;
  /// Terms of that delta: blocks of all destinations, one for an edge by source, and skips.
  Index delta_terms(int layer) const;
  /// By rank: Network::terms_of_rank.
  std::vector<Index> terms_by_rank(int layer) const;
  /// As Network::exchanges_terms, where every rank has a GPU.
  bool exchanges_terms(int layer) const;

  int owner(int edge) const {
    const int shared = graph_.edges[std::size_t(edge)].shared_with;
    return shared >= 0 ? shared : edge;
  }
  bool edge_takes_part(int edge) const {
    return takes_part(graph_.edges[std::size_t(edge)].destination);
  }
  bool is_sparse_source(int edge) const {
    return sparse_input_[std::size_t(graph_.edges[std::size_t(edge)].source)];
  }
  bool by_source(int edge) const { return sharding_.by_source[std::size_t(edge)]; }
  bool joins(int layer) const { return sharding_.joins[std::size_t(layer)]; }
  /// Whether a layer's pre-activations are sums over the ranks.
  bool sums_over_sources(int layer) const;
  /// Edges that use the weights of `edge`.
  int users(int edge) const;
  bool stored_by_destination(int edge) const;
  /// As Network::may_fuse_delta.
  bool may_fuse_delta(int layer) const;

  const DatasetInfo* set_of(int layer) const;
  static double entries_per_example(const DatasetInfo& set);

 protected:
  const Graph& graph_;
  const PlanSettings& settings_;
  std::vector<BlockPartition> partitions_;
  std::vector<bool> takes_part_;
  std::vector<bool> sparse_input_;
  Sharding sharding_;
  int slots_ = 0;  // arrays of state that the update rule has

 private:
  void find_participants();
};

}  // namespace norn
