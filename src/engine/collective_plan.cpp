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
constexpr double kRounded = sizeof(Bfloat16);
constexpr int kSmallSums = 2;  // of a step: its cost and its errors, whether to stop

using Kind = CollectivePlan::Kind;

class StepCollectives : private PlanFacts {
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
    sum_maxima();
    add_sum("end of the step", 3.0 * kWord, kSmallSums);
    return std::move(plans_);
  }

 private:
  double elements(int layer) const {
    return double(settings_.batch) * double(layer_of(layer).units());
  }

  double largest_share(int layer) const {
    return double(mine(layer)) / double(layer_of(layer).units());
  }
  // Uneven shares: one rank's goes around as it stands, and so it does on CPUs, which need not fill
  // up the small ones.
  void add_gather(const char* stage, int layer, double bytes) {
    const double all = double(settings_.ranks) * largest_share(layer);
    const bool one_owner = mine(layer) == layer_of(layer).units();
    const bool passed_on = one_owner || (!settings_.on_gpu && all > 1.0);
    plans_.push_back({stage, Kind::all_gather, bytes, passed_on ? bytes : bytes * all, passed_on});
  }
  void add_sum(const char* stage, double bytes, int count = 1) {
    plans_.push_back({stage, Kind::all_reduce, bytes, bytes, false, count});
  }

  // Ranks exchange activations as the products read them.
  void gather(int layer) {
    sum_sources(layer);
    if (!joins(layer)) return;
    const bool rounded = settings_.rounds_operands && training() && !is_softmax(layer);
    add_gather("gather activations", layer, elements(layer) * (rounded ? kRounded : kFloat));
  }

  // Edges by source: parts of pre-activations are added up, deltas gathered.
  void sum_sources(int layer) {
    if (!sums_over_sources(layer)) return;
    add_words("sum over sources", layer);
    if (training()) add_gather("gather deltas", layer, elements(layer) * kFloat);
  }

  void of_output(int layer) {
    sum_sources(layer);
    const double rows = double(settings_.batch);
    if (is_softmax(layer)) {
      const SoftMaxCost cost{graph_.network.loss, graph_.network.target_weight};
      const double maxima = double(settings_.ranks) * rows * kFloat;
      plans_.push_back({"sum SoftMax rows", Kind::all_gather, maxima, maxima});
      add_sum("sum SoftMax rows", rows * kWord, CostKernels::coupling_from_targets(cost) ? 1 : 2);
    }
    if (layer_of(layer).delta_norm > 0.0f) add_sum("sum norms of deltas", 3.0 * rows * kWord);
  }

  // CPUs look first whether coarse words were used; a GPU adds up both.
  void add_words(const char* stage, int layer) {
    const double bytes = elements(layer) * kWord * (settings_.on_gpu ? 2.0 : 1.0);
    if (!settings_.on_gpu) add_sum(stage, 2.0 * kWord);
    plans_.push_back({stage, Kind::reduce_scatter, bytes,
                      bytes * double(settings_.ranks) * largest_share(layer)});
  }

  // Each rank sends its terms to the owners of their columns; rank 0 has the most of both.
  void exchange_terms(int layer) {
    const double own = largest_share(layer);
    const auto mine = double(terms_by_rank(layer)[0]);
    const auto all = double(delta_terms(layer));
    const double term = elements(layer) * kFloat;
    const double busiest = term * std::max(mine * (1.0 - own), (all - mine) * own);
    const auto ranks = double(settings_.ranks);
    plans_.push_back(
        {"reduce deltas", Kind::exchange, term * all, busiest * ranks / (ranks - 1.0)});
  }

  void receive_delta(int layer) {
    ++deltas_;
    if (joins(layer)) {
      exchanges_terms(layer) ? exchange_terms(layer) : add_words("reduce deltas", layer);
      plans_.back().beside = settings_.on_gpu;
    }
    if (is_softmax(layer)) add_gather("gather SoftMax deltas", layer, elements(layer) * kFloat);
    if (layer_of(layer).delta_norm > 0.0f)
      add_sum("sum norms of deltas", 3.0 * double(settings_.batch) * kWord);
  }

  // Of all layers at once, for the formats of the next step's sums.
  void sum_maxima() {
    if (deltas_ == 0) return;
    add_sum("formats of deltas", double(deltas_) * kFloat);
    plans_.back().beside = settings_.on_gpu;
  }

  void gather_gradient(int edge) {
    const Edge& e = graph_.edges[std::size_t(edge)];
    add_gather(
        "gather shared gradients", e.destination,
        double(layer_of(e.source).units()) * double(layer_of(e.destination).units()) * kFloat);
  }

  std::vector<CollectivePlan> plans_;
  int deltas_ = 0;  // hidden layers that have one
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
double phase(const CollectivePlan& plan, const std::vector<LinkWay>& ways, int ranks,
             double bytes) {
  if (ranks == 1) return 0.0;
  const double steps = double(ranks - 1);
  const double others = steps / double(ranks);
  // What comes to be added up is read again, and so is what it is added to.
  constexpr double kAdding = 1.4;
  if (plan.kind == Kind::reduce_scatter) return fastest(ways, steps, kAdding * bytes * others);
  if (plan.kind != Kind::all_reduce)
    return fastest(ways, steps, plan.passed_on ? bytes : bytes * others);
  const double ring = fastest(ways, 2.0 * steps, 2.0 * bytes * others);
  const double tree = fastest(ways, 2.0 * std::ceil(std::log2(double(ranks))), 2.0 * bytes);
  return std::min(ring, tree);
}

}  // namespace

std::vector<CollectivePlan> plan_collectives(const Graph& graph, const PlanSettings& settings) {
  return StepCollectives(graph, settings).plan();
}

double collective_seconds(const CollectivePlan& collective, const MachineDescription& machine,
                          int ranks, int nodes) {
  const int of_node = (ranks + nodes - 1) / nodes;
  return phase(collective, machine.between_nodes, nodes, collective.sent / double(of_node)) +
         phase(collective, machine.inside_node, of_node, collective.sent);
}

}  // namespace norn
