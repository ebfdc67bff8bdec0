// SPDX-License-Identifier: Apache-2.0
// The best units of an output layer where the device finds them without writing their scores.
#include "src/engine/network/network_parts.h"

#include <algorithm>

namespace norn {

// The answer is the same on any number of ranks: it follows from the whole layer.
bool Network::finds_best(int output_layer, Index units, Index k) const {
  const UnitLayer* layer = unit_layer(output_layer);
  if (!context().compute.kernels.recommend || !layer ||
      !step::is_searched(parts_->facts, output_layer))
    return false;
  const ScoredUnits own = step::scored_units(parts_->state, output_layer, layer->mine(), batch());
  return context().compute.kernels.recommend->fits(own.x, own.w, units, k);
}

void Network::find_best(const BoundBatch& batch, int output_layer, const BestSearch& search) {
  parts_->require_planned(batch, "find_best");
  const Compute& compute = context().compute;
  const UnitLayer& layer = *unit_layer(output_layer);
  const Range own{layer.mine().begin, std::min(layer.mine().end, search.units)};
  step::State& state = parts_->state;
  const step::Program program = step::compile_search(parts_->facts, output_layer);
  state.now = {&batch, batch.examples, Pass::prediction, StepPosition{}, nullptr};
  state.load(false);
  compute.kernels.queue->run([&] {
    step::run(program, state);
    search.gave_up.fill_zero();
    if (own.count() > 0)
      compute.kernels.recommend->find(step::scored_units(state, output_layer, own, batch.examples),
                                      search.candidates, search.found, search.gave_up.data());
  });
}

void Network::score_best(int output_layer, const BestSearch& search, TopK& best) {
  const Compute& compute = context().compute;
  compute.kernels.queue->run([&] {
    step::score(parts_->state, output_layer, search.found.score.view());
    compute.kernels.select->merge(search.found, best);
    compute.kernels.recommend->check_lead(search.found, best, search.gave_up.data());
  });
  require_sums_in_range();
}

}  // namespace norn
