// SPDX-License-Identifier: Apache-2.0
// From the settings of a plan to those of a step.
#include "src/engine/plan/plan_settings.h"

namespace norn {

const DatasetInfo* set_of(const PlanSettings& settings, const LayerDescriptor& layer) {
  for (const DatasetInfo& set : settings.sets)
    if (set.name == layer.dataset) return &set;
  return nullptr;
}

double entries_per_example(const DatasetInfo& set) {
  if (!set.sparse) return 1.0;  // class labels
  return set.unique_examples > 0 ? double(set.entries) / double(set.unique_examples) : 0.0;
}

StepSettings step_settings(const Graph& graph, const PlanSettings& settings) {
  StepSettings step = static_cast<const StepSettings&>(settings);
  step.device.fuses = step.exchanges = settings.on_gpu();
  for (const LayerDescriptor& layer : graph.network.layers) {
    const DatasetInfo* set = set_of(settings, layer);
    step.sparse_input.push_back(set && set->gives_sparse_batches());
    step.entries.push_back(set ? entries_per_example(*set) : 0.0);
  }
  return step;
}

}  // namespace norn
