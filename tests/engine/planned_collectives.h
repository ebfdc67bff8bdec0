// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/plan/plan_settings.h"
#include "src/step/program.h"

#include <vector>

/// All collectives of a training step in the order of their stages; none for one rank.
namespace norn::test {

inline std::vector<CollectivePlan> planned_collectives(const Graph& graph,
                                                       const PlanSettings& settings) {
  const StepFacts facts(graph, step_settings(graph, settings));
  return step::traffic_of(step::compile_training(facts), facts);
}

}  // namespace norn::test
