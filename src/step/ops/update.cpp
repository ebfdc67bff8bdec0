// SPDX-License-Identifier: Apache-2.0
// Biases, shared matrices, bounds of weights, formats of sums.
#include "src/step/ops/update.h"

#include "src/nn/stored_weights.h"
#include "src/step/layers/by_example.h"
#include "src/step/layers/example_edges.h"

namespace norn::step {

void AddSharedGradients::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  if (!state.is_alone()) state.stage("gather shared gradients");
  for (std::size_t c = 0; c < unit.connections.size(); ++c) {
    const Connection& connection = unit.connections[c];
    if (!connection.shared()) continue;
    const int owner = state.facts.owner(state.edge_of(layer, c));
    const MatrixView<float> part = state.shared_gradient(layer, c).part.view();
    const std::vector<Range>& shares = state.facts.shares(layer);
    if (connection.weights().shape().by_destination != connection.transposed())
      state.collectives().all_gather_rows(part, shares);
    else
      state.collectives().all_gather_columns(part, shares);
    state.kernels().pointwise->add(part, state.shared[owner]->sum.view());
  }
}

void AddSharedGradients::traffic(const StepFacts& facts, TrafficList& list) const {
  for (int edge : facts.matrices(layer))
    if (facts.is_shared(edge))
      list.gather("gather shared gradients", layer,
                  double(facts.layer(facts.edge(edge).source).units()) *
                      double(facts.layer(layer).units()) * kFloat);
}

namespace {

// Biases of layers by example are those of UpdateByOwners, of factored ones a column of weights.
bool has_own_biases(const StepFacts& facts, int layer) {
  return !facts.is_input(layer) && !facts.by_example(layer) && !facts.is_factored(layer) &&
         rules_of(facts.layer(layer).type).edges != EdgeKind::own;
}

bool trains_bias(const StepFacts& facts, int layer) {
  return (facts.is_output(layer) || facts.wants_delta(layer)) && facts.units(layer) > 0 &&
         has_own_biases(facts, layer);
}

}  // namespace

void UpdateBiases::run(State& state) const {
  const WeightStep step = state.unit_step();
  const StepFacts& facts = state.facts;
  state.stage("bias update");
  std::vector<ColumnSum> gradients;
  for (int layer : facts.order()) {
    if (!trains_bias(facts, layer) || facts.is_output(layer)) continue;
    UnitLayer& unit = *state.units[layer];
    gradients.push_back(
        {unit.delta(state.examples()), step.scale, unit.bias_gradient(unit.mine())});
  }
  const Kernels& kernels = state.kernels();
  kernels.pointwise->sum_columns(gradients);
  if (kernels.fused) kernels.fused->add_totals();
  std::vector<VectorUpdate> updates;
  for (int layer : facts.order())
    if (trains_bias(facts, layer)) updates.push_back(state.units[layer]->bias_update());
  UpdateStep now = step.now();
  now.l1 = now.l2 = 0.0f;
  kernels.update->update_vectors(step.rule, now, updates);
}

void UpdateBiases::work(const StepFacts& facts, WorkList& list) const {
  for (int layer : facts.order()) {
    if (!has_own_biases(facts, layer)) continue;
    const double gradients = facts.is_output(layer) ? 0.0 : list.rows_of(layer) * kFloat;
    list.pass("bias update",
              gradients + double(facts.units(layer)) * (list.unit_update_bytes() + 2.0 * kFloat));
  }
}

void UpdateShared::run(State& state) const {
  SharedGradient& gradient = *state.shared[edge];
  const WeightStep step = state.weight_step(edge);
  Weights& weights = *state.weights[edge];
  UpdateKernels& kernels = *state.kernels().update;
  const MatrixView<float> g = gradient.sum.view();
  state.stage("shared weights");
  state.kernels().pointwise->scale(1.0f / float(weights.users), g);
  if (weights.shape().by_example) {
    update_by_owner(state, edge, g);
    return gradient.sum.fill_zero();
  }
  const SlotViews slots = weights.slots_of(weights.shape().mine);
  kernels.update(step.rule, step.now(), weights.values(), g, slots);
  const float limit = state.facts.layer(state.facts.edge(edge).destination).weight_norm;
  if (limit > 0.0f && weights.shape().by_destination)
    clip_row_norms(state.compute(), limit, weights.values());
  else if (limit > 0.0f)
    kernels.clip_column_norms(limit, weights.floats());
  weights.cast_to_bf16(state.compute());
  gradient.sum.fill_zero();
}

// Every rank has the whole of them, or rows of filters, whose gradients have been added up by then.
void UpdateShared::work(const StepFacts& facts, WorkList& list) const {
  const int layer = facts.edge(edge).destination;
  const bool by_example = facts.by_example(layer);
  const double share =
      by_example ? double(facts.units(layer)) / double(facts.channels(layer)) : 1.0;
  const double weights = double(weights_of(facts, edge)) * share;
  const double users = by_example ? 0.0 : double(facts.users(edge));
  list.add({.stage = "shared weights",
            .bytes = weights * (list.update_bytes(edge) + 2.0 * kFloat + 3.0 * kFloat * users),
            .calls = 1.0 + users,
            .edge = edge,
            .updated = weights});
}

void UpdateShared::traffic(const StepFacts& facts, TrafficList& list) const {
  const int layer = facts.edge(edge).destination;
  if (facts.by_example(layer))
    list.gather(kValues, layer, double(weights_of(facts, edge)) * kFloat);
}

// Sums go from source to source in the order of the descriptor, so no bit depends on the ranks. All
// of a unit's weights are this rank's: see choose_sharding() and why_not_runnable().
void BoundWeights::run(State& state) const {
  UpdateKernels& kernels = *state.kernels().update;
  UnitLayer& unit = *state.units[layer];
  Buffer<double>& buffer = state.weight_squares[layer];
  if (buffer.empty()) return;
  const float limit = unit.descriptor().weight_norm;
  const VectorView<double> squares = buffer.view();
  buffer.fill_zero();
  for (const Connection& connection : unit.connections) {
    Weights& weights = connection.weights();
    if (!weights.shape().by_destination) {
      kernels.add_column_squares(weights.floats(), squares);
      continue;
    }
    edit_rows(state.compute(), weights.values(), [&](Index first, MatrixView<float> rows) {
      kernels.add_row_squares(rows, squares.range(first, rows.rows));
    });
  }
  for (const Connection& connection : unit.connections) {
    Weights& weights = connection.weights();
    if (!weights.shape().by_destination) {
      kernels.scale_columns(limit, squares, weights.floats());
      continue;
    }
    edit_rows(state.compute(), weights.values(), [&](Index first, MatrixView<float> rows) {
      kernels.scale_rows(limit, squares.range(first, rows.rows), rows);
    });
    weights.cast_to_bf16(state.compute());
  }
}

void BeginMaxima::run(State& state) const {
  state.stage("formats of deltas");
  state.collectives().overlap([&] {
    state.collectives().all_reduce_max({state.maxima.data(), std::size_t(state.maxima.size())});
  });
}

void BeginMaxima::traffic(const StepFacts& facts, TrafficList& list) const {
  double deltas = 0.0;
  for (int layer : facts.order()) deltas += facts.sums_delta(layer) ? 1.0 : 0.0;
  list.all_reduce("formats of deltas", deltas * kFloat);
  list.mark_overlapping();
}

void FinishMaxima::run(State& state) const {
  state.stage("formats of deltas");
  state.collectives().wait_for_overlapped();
  for (int layer : state.summed) state.units[layer]->delta_sum.adapt(state.compute());
}

void AddSharedGradients::tensors(TensorUses& uses) const {
  for (int edge : uses.facts.matrices(layer))
    if (uses.facts.is_shared(edge))
      uses.updates(uses.tensors.shared[edge]->part,
                   uses.tensors.shared[uses.facts.owner(edge)]->sum);
}

void UpdateBiases::tensors(TensorUses& uses) const {
  for (int layer : uses.facts.order()) {
    if (!has_own_biases(uses.facts, layer)) continue;
    UnitLayer& unit = *uses.tensors.units[layer];
    uses.reads(unit.deltas);
    if (uses.facts.is_output(layer)) uses.reads(unit.gradient);
    uses.writes(unit.gradient);
    uses.updates_all(unit.bias);
  }
}

void UpdateShared::tensors(TensorUses& uses) const {
  uses.updates(uses.tensors.shared[edge]->sum);
  uses.updates_weights(edge);
}

void BoundWeights::tensors(TensorUses& uses) const {
  uses.writes(uses.tensors.weight_squares[layer]);
  for (int edge : uses.facts.matrices(layer)) uses.updates_weights(edge);
}

void FinishMaxima::tensors(TensorUses& uses) const {
  uses.updates(uses.tensors.maxima);
  for (int layer : uses.facts.order())
    if (uses.facts.sums_delta(layer)) uses.updates_all(uses.tensors.units[layer]->delta_sum);
}

}  // namespace norn::step
