// SPDX-License-Identifier: Apache-2.0
// What a step does while ranks join their deltas: updates of weights that nothing waits for. And
// the maxima of all deltas, joined at once, which only the next step needs.
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

namespace norn {

void Network::build_overlap() {
  overlap_ = std::make_unique<Overlap>();
  if (purpose_ != Pass::training || context_.collectives->size() == 1) return;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const UnitLayer* unit = unit_layer(*it);
    if (!unit || unit->is_output() || !unit->delta_sum.allocated()) continue;
    overlap_->summed.push_back(*it);
    if (unit->settings().is_joined) overlap_->meetings.push_back(*it);
  }
  overlap_->maxima = Buffer<float>::zeros(Index(overlap_->summed.size()), context_.compute.memory);
  for (std::size_t i = 0; i < overlap_->summed.size(); ++i)
    unit_layer(overlap_->summed[i])->delta_sum.keep_maximum_at(overlap_->maxima.data() + i);
}

// Several lanes would write over deltas that wait.
bool Network::keeps_updates() const {
  return overlap_->next < overlap_->meetings.size() && context_.collectives->goes_beside() &&
         scratch_.size() == 1;
}

// It goes with the next meeting, as a whole: parts, one with each meeting to come, were slower for
// small batches (docs/decisions/0014).
void Network::keep_update(const UnitLayer& layer, std::size_t connection, const LayerOutput& x,
                          const DenseOperand& delta, Range units, const WeightStep& step) {
  overlap_->later.keep(overlap_->next, [=, this, &layer] {
    update_weights(layer, connection, x, delta, units, step, 0);
  });
}

// Formats of the next step's sums follow from the largest values of all ranks.
void Network::begin_maxima() {
  if (overlap_->summed.empty()) return;
  stage("reduce");
  context_.collectives->beside([this] {
    context_.collectives->all_reduce_max(
        {overlap_->maxima.data(), std::size_t(overlap_->maxima.size())});
  });
}

void Network::finish_maxima() {
  if (overlap_->summed.empty()) return;
  stage("reduce");
  context_.collectives->join();
  for (int layer : overlap_->summed) unit_layer(layer)->delta_sum.adapt(context_.compute);
}

}  // namespace norn
