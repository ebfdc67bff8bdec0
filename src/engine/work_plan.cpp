// SPDX-License-Identifier: Apache-2.0
// Work of a step on rank 0, edge by edge.
#include "src/engine/plan_settings.h"

#include <algorithm>

namespace norn {
namespace {

constexpr double kFloat = sizeof(float);
constexpr double kRounded = sizeof(Bfloat16);

class EdgeCounts {
 public:
  EdgeCounts(const Graph& graph, const PlanSettings& settings)
      : facts_(graph, step_settings(graph, settings)) {}
  const StepFacts& facts() const { return facts_; }

  // A step of one weight: it and its state are read and written.
  double step_bytes() const {
    const int slots = facts_.training() ? slots_of(facts_.graph().network.training.optimizer) : 0;
    return 2.0 * kFloat * (1.0 + double(slots));
  }

  void add_work(int number, WorkPlan& work) const {
    if (!facts_.edge_takes_part(number)) return;
    const Edge& edge = facts_.edge(number);
    const double batch = double(facts_.batch());
    const bool by_source = facts_.by_source(number);
    const double units =
        double(by_source ? facts_.layer(edge.destination).units() : facts_.units(edge.destination));
    const double sources =
        double(by_source ? facts_.units(edge.source) : facts_.layer(edge.source).units());
    if (facts_.is_sparse_source(number)) {
      const double entries = batch * facts_.entries(edge.source);
      const double touched = std::min(entries, double(facts_.layer(edge.source).units()));
      work.sparse_flops += 2.0 * 2.0 * entries * units;  // forward and gradient
      work.updated_weights += touched * units;
      work.bytes += 2.0 * kFloat * entries * units + touched * units * step_bytes();
      return;
    }
    const double product = 2.0 * batch * sources * units;
    const bool twice = facts_.is_softmax(edge.destination) && facts_.is_output(edge.destination) &&
                       !facts_.keeps_z(edge.destination) && !by_source;
    const double passes = 1.0 + (twice ? 1.0 : 0.0) + (facts_.is_input(edge.source) ? 0.0 : 1.0);
    work.dense_flops += product * (1.0 + passes);
    const double weights = sources * units;
    const bool rounds = facts_.device().rounds_operands;
    work.updated_weights += weights;
    work.bytes += weights * (passes * (rounds ? kRounded : kFloat) + step_bytes() +
                             (rounds ? kRounded : 0.0));
  }

 private:
  const StepFacts facts_;
};

}  // namespace

WorkPlan plan_work(const Graph& graph, const PlanSettings& settings) {
  const EdgeCounts counts(graph, settings);
  const StepFacts& facts = counts.facts();
  WorkPlan work;
  for (int edge = 0; edge < facts.edges(); ++edge) counts.add_work(edge, work);
  for (int layer : facts.order())
    if (!facts.is_input(layer))
      work.pointwise_elements += 3.0 * double(facts.batch()) * double(facts.units(layer));
  return work;
}

std::vector<EdgeWork> plan_edges(const Graph& graph, const PlanSettings& settings) {
  const EdgeCounts counts(graph, settings);
  const StepFacts& facts = counts.facts();
  std::vector<EdgeWork> edges;
  for (int edge = 0; edge < facts.edges(); ++edge) {
    if (!facts.edge_takes_part(edge)) continue;
    edges.push_back({facts.layer(facts.edge(edge).source).name,
                     facts.layer(facts.edge(edge).destination).name,
                     {}});
    counts.add_work(edge, edges.back().work);
  }
  return edges;
}

}  // namespace norn
