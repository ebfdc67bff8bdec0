// SPDX-License-Identifier: Apache-2.0
// Network's decisions from sizes alone.
#include "src/engine/plan_facts.h"

#include <algorithm>
#include <numeric>

namespace norn {
namespace {

// As in Network: pre-activations that SoftMax keeps between its passes.
constexpr Index kKeptElements = Index(1) << 24;

}  // namespace

PlanFacts::PlanFacts(const Graph& graph, const PlanSettings& settings)
    : graph_(graph), settings_(settings) {
  const std::size_t layers = graph.network.layers.size();
  partitions_.resize(layers);
  for (std::size_t i = 0; i < layers; ++i)
    partitions_[i] = partition_of(graph.network.layers[i], settings.batch, settings.block_rule);
  find_participants();
  sharding_ = choose_sharding(graph, takes_part_, settings.batch, settings.block_rule);
  sparse_input_.assign(layers, false);
  for (std::size_t i = 0; i < layers; ++i)
    for (const DatasetInfo& set : settings.sets)
      if (set.name == graph.network.layers[i].dataset)
        sparse_input_[i] = set.gives_sparse_batches();
  slots_ = training() ? slots_of(graph.network.training.optimizer) : 0;
}

void PlanFacts::find_participants() {
  const auto& layers = graph_.network.layers;
  takes_part_.assign(layers.size(), false);
  bool any = false;
  for (std::size_t i = 0; i < layers.size(); ++i)
    any = (takes_part_[i] = layers[i].kind == LayerKind::output) || any;
  if (!any) takes_part_.assign(layers.size(), true);
  for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it) {
    if (!takes_part_[std::size_t(*it)]) continue;
    for (int edge : graph_.sources[std::size_t(*it)])
      takes_part_[std::size_t(graph_.edges[std::size_t(edge)].source)] = true;
    for (int skip : graph_.skips[std::size_t(*it)]) takes_part_[std::size_t(skip)] = true;
  }
}

bool PlanFacts::keeps_z(int layer) const {
  return is_softmax(layer) && !(training() && may_fuse_delta(layer)) &&
         partition(layer).width() * settings_.batch <= kKeptElements;
}

bool PlanFacts::wants_delta(int layer) const {
  return training() && !is_input(layer) &&
         (!graph_.destinations[std::size_t(layer)].empty() ||
          !graph_.skip_destinations[std::size_t(layer)].empty());
}

Index PlanFacts::delta_terms(int layer) const {
  Index terms = 0;
  for (int edge : graph_.destinations[std::size_t(layer)]) {
    const int destination = graph_.edges[std::size_t(edge)].destination;
    if (takes_part(destination)) terms += by_source(edge) ? 1 : partition(destination).blocks();
  }
  return terms + Index(graph_.skip_destinations[std::size_t(layer)].size());
}

std::vector<Index> PlanFacts::terms_by_rank(int layer) const {
  std::vector<Index> counts(std::size_t(settings_.ranks), 0);
  for (int edge : graph_.destinations[std::size_t(layer)]) {
    const int destination = graph_.edges[std::size_t(edge)].destination;
    if (!takes_part(destination)) continue;
    for (int r = 0; r < settings_.ranks; ++r)
      counts[std::size_t(r)] += partition(destination).blocks_of(r, settings_.ranks).count();
  }
  return counts;
}

bool PlanFacts::exchanges_terms(int layer) const {
  const std::vector<Index> counts = terms_by_rank(layer);
  return settings_.on_gpu &&
         std::accumulate(counts.begin(), counts.end(), Index(0)) <= FixedTerms::kMost &&
         graph_.skip_destinations[std::size_t(layer)].empty();
}

bool PlanFacts::sums_over_sources(int layer) const {
  const std::vector<int>& edges = graph_.sources[std::size_t(layer)];
  return std::any_of(edges.begin(), edges.end(), [this](int edge) { return by_source(edge); });
}

int PlanFacts::users(int edge) const {
  int count = 0;
  for (std::size_t e = 0; e < graph_.edges.size(); ++e)
    count += owner(int(e)) == edge && edge_takes_part(int(e));
  return count;
}

bool PlanFacts::stored_by_destination(int edge) const {
  for (std::size_t e = 0; e < graph_.edges.size(); ++e)
    if (owner(int(e)) == edge && is_sparse_source(int(e)))
      return int(e) != edge && graph_.edges[e].transposed;
  return true;
}

bool PlanFacts::may_fuse_delta(int layer) const {
  const std::vector<int>& edges = graph_.sources[std::size_t(layer)];
  if (!settings_.on_gpu || edges.size() != 1) return false;
  const Edge& edge = graph_.edges[std::size_t(edges[0])];
  return (settings_.rounds_operands || settings_.turns_operands) && !is_sparse_source(edges[0]) &&
         !by_source(edges[0]) && stored_by_destination(owner(edges[0])) != edge.transposed &&
         graph_.skips[std::size_t(layer)].empty() && layer_of(layer).delta_norm == 0.0f &&
         (!is_softmax(layer) || (sparse_input_[std::size_t(layer)] &&
                                 CostKernels::coupling_from_targets({graph_.network.loss})));
}

const DatasetInfo* PlanFacts::set_of(int layer) const {
  for (const DatasetInfo& set : settings_.sets)
    if (set.name == layer_of(layer).dataset) return &set;
  return nullptr;
}

double PlanFacts::entries_per_example(const DatasetInfo& set) {
  if (!set.sparse) return 1.0;  // class labels
  return set.unique_examples > 0 ? double(set.entries) / double(set.unique_examples) : 0.0;
}

}  // namespace norn
