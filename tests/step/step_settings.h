// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/facts.h"
#include "tests/support/recipes.h"

namespace norn::step::test {

/// Of a recipe's training on one rank of a CPU.
inline StepSettings training_settings(const norn::test::Recipe& recipe, const Graph& graph) {
  StepSettings settings;
  settings.batch = recipe.network.training.batch;
  settings.device.block_rule = recipe.blocks;
  settings.by_example = recipe.layers_by_example();
  for (const LayerDescriptor& layer : graph.network.layers) {
    bool sparse = false;
    for (const DatasetShape& shape : recipe.shapes())
      if (shape.name == layer.dataset) sparse = shape.gives_sparse_batches;
    settings.sparse_input.push_back(sparse);
    settings.entries.push_back(4.0);
  }
  return settings;
}

}  // namespace norn::step::test
