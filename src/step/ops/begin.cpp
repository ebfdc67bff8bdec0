// SPDX-License-Identifier: Apache-2.0
// Sums and flags at the beginning of a step.
#include "src/step/ops/begin.h"

namespace norn::step {
namespace {

constexpr int kSmallSums = 2;  // of a step: its cost and its errors, whether to stop

// `flags`: by sum. They become 0 after this, because sums look at their old ones.
void begin_source_sums(State& state, SumFlags* flags) {
  for (int layer : state.facts.order())
    if (const auto& sum = state.source_sums[layer])
      sum->parts.begin(state.examples(), flags + state.facts.outcome().source_sum(layer));
}

}  // namespace

void BeginStep::run(State& state) const {
  state.late.clear();
  state.stage("batch");
  const Outcome outcome = state.outcome();
  for (int layer : state.facts.order())
    if (state.facts.sums_delta(layer))
      state.units[layer]->delta_sum.begin(state.examples(), outcome.sum(layer));
  begin_source_sums(state, outcome.source_sums());
  state.outcome_bytes().fill_zero();
}

void BeginForward::run(State& state) const {
  begin_source_sums(state, state.prediction_flags.data());
  state.prediction_flags.fill_zero();
  if (costs) state.outcome_bytes().fill_zero();
}

void BeginOutputs::run(State& state) const {
  if (state.kernels().fused) state.kernels().fused->begin_totals();
  state.stage("other");
}

void EndStep::run(State& state) const {
  state.stage("end");
}

void EndStep::traffic(const StepFacts&, TrafficList& list) const {
  list.all_reduce("end of the step", 3.0 * kWord, kSmallSums);
}

void BeginStep::tensors(TensorUses& uses) const {
  BeginForward{}.tensors(uses);
  for (int layer : uses.facts.order())
    if (uses.facts.sums_delta(layer)) uses.updates_all(uses.tensors.units[layer]->delta_sum);
}

void BeginForward::tensors(TensorUses& uses) const {
  for (int layer : uses.facts.order())
    if (const auto& sum = uses.tensors.source_sums[layer]) uses.updates_all(sum->parts);
  uses.updates_flags();
}

}  // namespace norn::step
