// SPDX-License-Identifier: Apache-2.0
// Work of a training step on rank 0 with the weights of each edge, from its ops.
#include "src/engine/plan/plan_settings.h"
#include "src/step/program.h"

namespace norn {

std::vector<EdgeWork> plan_edges(const Graph& graph, const PlanSettings& settings) {
  const StepFacts facts(graph, step_settings(graph, settings));
  Numbered<EdgeWork> of_edge(graph.edges.size());
  for (const step::Work& work : step::work_of(step::compile_training(facts), facts)) {
    if (work.edge < 0) continue;
    WorkPlan& plan = of_edge[work.edge].work;
    (facts.is_sparse_source(work.edge) ? plan.sparse_flops : plan.dense_flops) += work.flops;
    plan.updated_weights += work.updated;
    plan.bytes += work.least_bytes();
  }
  std::vector<EdgeWork> edges;
  for (int edge = 0; edge < facts.edges(); ++edge) {
    of_edge[edge].kind = rules_of(facts.edge(edge).kind).name;
    of_edge[edge].source = facts.layer(facts.edge(edge).source).name;
    of_edge[edge].destination = facts.layer(facts.edge(edge).destination).name;
    if (facts.edge_takes_part(edge)) edges.push_back(of_edge[edge]);
  }
  return edges;
}

WorkPlan plan_work(const Graph& graph, const PlanSettings& settings) {
  WorkPlan all;
  for (const EdgeWork& edge : plan_edges(graph, settings)) {
    all.dense_flops += edge.work.dense_flops;
    all.sparse_flops += edge.work.sparse_flops;
    all.updated_weights += edge.work.updated_weights;
    all.bytes += edge.work.bytes;
  }
  return all;
}

}  // namespace norn
