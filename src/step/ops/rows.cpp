// SPDX-License-Identifier: Apache-2.0
// Rows of sparse weights.
#include "src/step/ops/rows.h"

namespace norn::step {
namespace {

// Whether a row that is not touched would have changed.
bool changes_untouched_rows(const TrainingDescriptor& training, const UpdateRule& rule) {
  return training.lambda != 0.0f || training.lambda1 != 0.0f ||
         !std::visit([](const auto& of_edge) { return of_edge.rests_without_gradient; }, rule);
}

}  // namespace

void CatchUpRows::run(State& state) const {
  const LayerOutput& x = state.inputs[state.facts.edge(edge).source]->output();
  Weights& weights = *state.weights[edge];
  state.stage("rows caught up");
  state.kernels().sparse->catch_up(state.facts.rule(edge), state.schedule, state.now.position.step,
                                   *x.transposed, weights.row_state(weights.shape().mine));
}

void CatchUpRows::work(const StepFacts& facts, WorkList& list) const {
  if (changes_untouched_rows(facts.graph().network.training, facts.rule(edge)))
    list.catch_up_rows(edge);
}

void UpdateRows::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  const DenseOperand& delta = state.deltas[layer];
  state.stage("sparse update");
  for (std::size_t c = 0; c < unit.connections.size(); ++c) {
    const Connection& connection = unit.connections[c];
    if (!connection.sparse_source()) continue;
    const LayerOutput x = state.output_of(unit.source_layers[c]);
    const WeightStep step = state.weight_step(state.edge_of(layer, c));
    if (connection.shared())
      connection.gradient(state.compute(), step.scale, x, delta, unit.mine(),
                          state.shared_gradient(layer, c).part.view());
    else
      connection.update(state.compute(), step, x, delta, unit.mine(), 0, state.workspace[0]);
  }
}

void UpdateRows::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer))
    if (facts.is_sparse_source(edge)) list.update_rows(edge);
}

void FinishRows::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  SparseKernels& kernels = *state.kernels().sparse;
  for (std::size_t c = 0; c < unit.connections.size(); ++c) {
    const Connection& connection = unit.connections[c];
    if (!connection.sparse_source() || connection.shared()) continue;
    Weights& weights = connection.weights();
    const WeightStep step = state.weight_step(state.edge_of(layer, c));
    const LayerOutput x = state.output_of(unit.source_layers[c]);
    kernels.mark_done(*x.transposed, step.step, weights.steps_done());
    const float limit = unit.descriptor().weight_norm;
    if (limit <= 0.0f) continue;
    kernels.catch_up(step.rule, step.schedule, step.step + 1,
                     weights.row_state(weights.shape().mine));
    if (!state.facts.bounds_sources_together(layer))
      state.kernels().update->clip_column_norms(limit, weights.floats());
  }
}

void UpdateRows::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(unit.deltas, unit.bf16_deltas);
  for (int edge : uses.facts.matrices(layer)) {
    if (!uses.facts.is_sparse_source(edge)) continue;
    if (uses.facts.is_shared(edge))
      uses.updates(uses.tensors.shared[edge]->part);
    else
      uses.updates_weights(edge);
  }
}

void FinishRows::tensors(TensorUses& uses) const {
  for (int edge : uses.facts.matrices(layer))
    if (uses.facts.is_sparse_source(edge) && !uses.facts.is_shared(edge))
      uses.updates_weights(edge);
}

}  // namespace norn::step
