// SPDX-License-Identifier: Apache-2.0
// The collectives of a training step, as network_train.cpp and network_output.cpp call them, and
// what each takes.
#include "norn/engine/step_plan.h"
#include "norn/kernels/cost.h"
#include "src/engine/plan_facts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace norn {
namespace {

constexpr double kWord = sizeof(std::int64_t);
constexpr double kFloat = sizeof(float);
constexpr int kSmallSums = 3;  // of a step: its cost, its errors, whether to stop

using Kind = CollectivePlan::Kind;

class Collectives : private PlanFacts {
 public:
  using PlanFacts::PlanFacts;

  std::vector<CollectivePlan> plan() {
    if (settings_.ranks == 1) return {};
    for (int layer : graph_.order)
      if (takes_part(layer) && !is_input(layer))
        is_output(layer) ? of_output(layer) : gather(layer);
    for (auto it = graph_.order.rbegin(); it != graph_.order.rend(); ++it)
      if (takes_part(*it) && !is_output(*it) && wants_delta(*it)) receive_delta(*it);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e)
      if (edge_takes_part(int(e)) && users(owner(int(e))) > 1) gather_gradient(int(e));
    add("end of the step", Kind::all_reduce, 3.0 * kWord, 1.0, kSmallSums);
    return std::move(plans_);
  }

 private:
  double elements(int layer) const {
    return double(settings_.batch) * double(layer_of(layer).units());
  }

  // What passes a rank: all but the smallest share of the whole.
  double moved(int layer) const {
    const BlockPartition& blocks = partition(layer);
    const Range last = blocks.units_of(settings_.ranks - 1, settings_.ranks);
    return 1.0 - double(last.count()) / double(blocks.width());
  }

  void add(const char* stage, Kind kind, double bytes, double moved, int count = 1) {
    plans_.push_back({stage, kind, bytes, moved, count});
  }
  void add_sum(const char* stage, double bytes, int count = 1) {
    add(stage, Kind::all_reduce, bytes, 1.0 - 1.0 / double(settings_.ranks), count);
  }

  // Ranks exchange activations as the products read them.
  void gather(int layer) {
    add("gather activations", Kind::all_gather,
        elements(layer) * (settings_.rounds_operands ? 2.0 : kFloat), moved(layer));
  }

  void of_output(int layer) {
    const double rows = double(settings_.batch);
    if (is_softmax(layer)) {
      const SoftMaxCost cost{graph_.network.loss, graph_.network.target_weight};
      add_sum("sum SoftMax rows", rows * kFloat);
      add_sum("sum SoftMax rows", rows * kWord, CostKernels::coupling_from_targets(cost) ? 1 : 2);
    }
    if (layer_of(layer).delta_norm > 0.0f) add_sum("sum norms of deltas", 3.0 * rows * kWord);
  }

  void receive_delta(int layer) {
    add_sum("formats of deltas", 2.0 * kWord, 2);
    add("reduce deltas", Kind::reduce_scatter, elements(layer) * kWord, moved(layer));
    if (is_softmax(layer))
      add("gather SoftMax deltas", Kind::all_gather, elements(layer) * kFloat, moved(layer));
    if (layer_of(layer).delta_norm > 0.0f)
      add_sum("sum norms of deltas", 3.0 * double(settings_.batch) * kWord);
  }

  void gather_gradient(int edge) {
    const Edge& e = graph_.edges[std::size_t(edge)];
    add("gather shared gradients", Kind::all_gather,
        double(layer_of(e.source).units()) * double(layer_of(e.destination).units()) * kFloat,
        moved(e.destination));
  }

  std::vector<CollectivePlan> plans_;
};

// The fastest way of those that a link has.
double fastest(const std::vector<LinkWay>& ways, double steps, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const LinkWay& way : ways)
    least = std::min(least, 1e-6 * (way.start_microseconds + steps * way.step_microseconds) +
                                1e-9 * bytes / way.gigabytes);
  return least;
}

// Among `ranks` ranks that are linked alike.
double phase(Kind kind, const std::vector<LinkWay>& ways, int ranks, double bytes, double moved) {
  if (ranks == 1) return 0.0;
  const double around = double(ranks - 1);
  if (kind != Kind::all_reduce) return fastest(ways, around, bytes * moved);
  const double ring = fastest(ways, 2.0 * around, 2.0 * bytes * around / double(ranks));
  const double tree = fastest(ways, 2.0 * std::ceil(std::log2(double(ranks))), 2.0 * bytes);
  return std::min(ring, tree);
}

}  // namespace

std::vector<CollectivePlan> plan_collectives(const Graph& graph, const PlanSettings& settings) {
  return Collectives(graph, settings).plan();
}

double collective_seconds(const CollectivePlan& collective, const MachineDescription& machine,
                          int ranks, int nodes) {
  const int of_node = (ranks + nodes - 1) / nodes;
  const double part = collective.bytes / double(of_node);
  return phase(collective.kind, machine.between_nodes, nodes, part, collective.moved) +
         phase(collective.kind, machine.inside_node, of_node, collective.bytes, collective.moved);
}

}  // namespace norn
