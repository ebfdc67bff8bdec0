// SPDX-License-Identifier: Apache-2.0
// The arrays that several ops use alike.
#include "src/step/uses.h"

namespace norn::step {

void TensorUses::reads_activations(int layer) {
  if (UnitLayer* unit = tensors.units[layer].get())
    reads(facts.by_example(layer) ? unit->gathered : unit->activations, unit->bf16_activations,
          unit->transposed_activations);
}

void TensorUses::reads_weights(int edge) {
  tensors.weights[facts.owner(edge)]->for_each_operand([this](auto& array) { this->reads(array); });
}

void TensorUses::updates_weights(int edge) {
  updates_all(*tensors.weights[facts.owner(edge)]);
}

void TensorUses::updates_flags() {
  updates(tensors.outcomes[0], tensors.outcomes[1], tensors.prediction_flags);
}

void TensorUses::adds_to(DeltaSum& sum) {
  updates_all(sum);
  updates(tensors.maxima);
  updates_flags();
}

void TensorUses::adds_to_delta(int layer) {
  if (UnitLayer* unit = tensors.units[layer].get()) adds_to(unit->delta_sum);
}

void TensorUses::reads_sources(int layer) {
  reads(tensors.units[layer]->bias.value);
  for (int edge : facts.matrices(layer)) {
    if (facts.by_source(edge)) continue;
    reads_weights(edge);
    reads_activations(facts.edge(edge).source);
  }
  if (tensors.source_sums[layer]) reads(tensors.source_sums[layer]->z);
  for (int edge : facts.unit_edges(layer)) reads_activations(facts.edge(edge).source);
  for (EdgeRoom& edge : tensors.unit_edges[layer])
    std::visit(
        [this](auto& room) {
          room.for_each_tensor([this](auto& array) {
            if (array.tensor().purpose == Purpose::parameter) this->reads(array);
          });
        },
        edge);
}

void TensorUses::writes_lanes() {
  for (Workspace& lane : tensors.workspace) writes_all(lane);
}

Lifetime lifetime_of(const Tensor& tensor, const std::vector<TensorUses>& uses) {
  const auto has = [&](const std::vector<const Tensor*>& list) {
    return std::find(list.begin(), list.end(), &tensor) != list.end();
  };
  Lifetime lifetime;
  for (std::size_t op = 0; op < uses.size(); ++op) {
    const bool is_read = has(uses[op].read);
    if (!is_read && !has(uses[op].written)) continue;
    if (lifetime.first < 0 && is_read) return {0, int(uses.size()) - 1};
    if (lifetime.first < 0) lifetime.first = int(op);
    lifetime.last = int(op);
  }
  return lifetime;
}

}  // namespace norn::step
