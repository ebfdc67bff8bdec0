// SPDX-License-Identifier: Apache-2.0
// Work of a training step on rank 0, from its ops.
#include "src/engine/plan_settings.h"
#include "src/step/program.h"

#include <algorithm>

namespace norn {
namespace {

// The step of these settings, and its work.
class CountedStep {
 public:
  CountedStep(const Graph& graph, PlanSettings settings)
      : facts_(graph, training_settings(graph, std::move(settings))),
        work_(step::work_of(step::compile_training(facts_), facts_)) {}
  const StepFacts& facts() const { return facts_; }

  // With the weights of an edge; -1: of all.
  WorkPlan of_edge(int edge) const {
    WorkPlan plan;
    for (const step::Work& work : work_)
      if (work.edge >= 0 && (edge < 0 || work.edge == edge)) add(work, plan);
    return plan;
  }

 private:
  static StepSettings training_settings(const Graph& graph, PlanSettings settings) {
    settings.purpose = Pass::training;
    return step_settings(graph, settings);
  }

  // Rows of weights are read for every entry; an update gathers deltas beside them.
  void add(const step::Work& work, WorkPlan& plan) const {
    const bool sparse = facts_.is_sparse_source(work.edge);
    (sparse ? plan.sparse_flops : plan.dense_flops) += work.flops;
    plan.updated_weights += work.updated;
    plan.bytes += work.kind == step::Work::Kind::rows ? work.bytes + work.gathered
                                                      : std::max(work.bytes, work.gathered);
  }

  const StepFacts facts_;
  const std::vector<step::Work> work_;
};

}  // namespace

WorkPlan plan_work(const Graph& graph, const PlanSettings& settings) {
  const CountedStep counted(graph, settings);
  const StepFacts& facts = counted.facts();
  WorkPlan work = counted.of_edge(-1);
  for (int layer : facts.order())
    if (!facts.is_input(layer))
      work.pointwise_elements += 3.0 * double(facts.batch()) * double(facts.units(layer));
  return work;
}

std::vector<EdgeWork> plan_edges(const Graph& graph, const PlanSettings& settings) {
  const CountedStep counted(graph, settings);
  const StepFacts& facts = counted.facts();
  std::vector<EdgeWork> edges;
  for (int edge = 0; edge < facts.edges(); ++edge)
    if (facts.edge_takes_part(edge))
      edges.push_back({facts.layer(facts.edge(edge).source).name,
                       facts.layer(facts.edge(edge).destination).name, counted.of_edge(edge)});
  return edges;
}

}  // namespace norn
