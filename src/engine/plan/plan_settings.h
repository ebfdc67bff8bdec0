// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/plan/memory_plan.h"
#include "src/step/facts.h"

/// What plans of memory, work, time and collectives are made from.
namespace norn {

/// A step of rank 0, which owns the most blocks of every layer.
StepSettings step_settings(const Graph& graph, const PlanSettings& settings);
/// The data set of a layer; null where the plan knows of none.
const DatasetInfo* set_of(const PlanSettings& settings, const LayerDescriptor& layer);
double entries_per_example(const DatasetInfo& set);

}  // namespace norn
