// SPDX-License-Identifier: Apache-2.0
// The best units of an output layer where the device finds them without writing their scores.
#include "norn/base/error.h"
#include "src/engine/network/network_parts.h"

#include <algorithm>

namespace norn {
namespace {

// Whether a higher pre-activation never gives a lower score, rounding apart.
bool keeps_order(const LayerActivation& activation) {
  const Activation* pointwise = std::get_if<Activation>(&activation);
  return !pointwise || std::visit([](const auto& f) { return f.searched_by_z; }, *pointwise);
}

// Units that this rank has.
ScoredUnits scored_units(const step::State& state, int output_layer, Range units, Index examples) {
  const UnitLayer& layer = *state.units[output_layer];
  return {
      state.output_of(layer.source_layers[0], examples).dense, layer.connections[0].operand(units),
      layer.bias.value.view().range(units.begin - layer.mine().begin, units.count()), units.begin};
}

}  // namespace

// The answer is the same on any number of ranks: it follows from the whole layer.
bool Network::finds_best(int output_layer, Index units, Index k) const {
  const UnitLayer* found = unit_layer(output_layer);
  if (!context().compute.kernels.recommend || !found || !found->is_output()) return false;
  const UnitLayer& layer = *found;
  if (layer.connections.size() != 1 || !layer.connections[0].begins_with_bias() ||
      !unit_layer(layer.source_layers[0]) || !parts_->facts.unit_edges(output_layer).empty() ||
      !keeps_order(layer.descriptor().activation))
    return false;
  const ScoredUnits own = scored_units(parts_->state, output_layer, layer.mine(), batch());
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
      compute.kernels.recommend->find(scored_units(state, output_layer, own, batch.examples),
                                      search.candidates, search.found, search.gave_up.data());
  });
}

void Network::score_best(int output_layer, Index examples, const BestSearch& search, TopK& best) {
  const Compute& compute = context().compute;
  const UnitLayer& layer = *unit_layer(output_layer);
  compute.kernels.queue->run([&] {
    const MatrixView<float> score = search.found.score.view();
    if (layer.is_softmax())
      compute.kernels.cost->softmax_values(
          parts_->state.room<step::OutputRoom>(output_layer).rows(examples), score);
    else
      compute.kernels.pointwise->activate(std::get<Activation>(layer.descriptor().activation),
                                          score);
    compute.kernels.select->merge(search.found, best);
    compute.kernels.recommend->check_lead(search.found, best, search.gave_up.data());
  });
  require_sums_in_range();
}

}  // namespace norn
