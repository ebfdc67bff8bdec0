// SPDX-License-Identifier: Apache-2.0
// Input deltas and updates, block by block.
#include "src/step/ops/blocks.h"

#include "src/nn/stored_weights.h"
#include "src/step/ops/source_edges.h"

#include <algorithm>
#include <utility>

namespace norn::step {
namespace {

template <typename Body>
void for_blocks_of(const UnitLayer& unit, Range units, const Body& body) {
  const Index width = unit.partition().block_width();
  for (Index first = units.begin; first < units.end; first += width)
    body(Range{first, std::min(first + width, units.end)});
}

// Each block's part of the delta of one source.
void send_delta(State& state, const UnitLayer& unit, const Connection& connection,
                UnitLayer& source, const DenseOperand& delta, Range units, int lane) {
  Compute& compute = state.compute();
  const Index width = unit.partition().block_width();
  for (Index first = units.begin; first < units.end;) {
    state.stage(stages_of(state.facts, unit.settings().number).input_delta);
    SumSlots dx = source.delta_sum.next_slots(compute, (units.end - first + width - 1) / width);
    if (dx.count == 0) {
      dx.of[0] = {state.workspace[std::size_t(lane)].dx.view().data, delta.rows(),
                  connection.sources(), connection.sources()};
      dx.count = 1;
    }
    const Range part{first, std::min(first + dx.count * width, units.end)};
    connection.input_delta(compute, delta.columns(first - units.begin, part.count()), part,
                           unit.block(), dx.all());
    state.stage("fixed point");
    for (const MatrixView<float>& term : dx.all()) source.delta_sum.add(compute, 0, term);
    first = part.end;
  }
}

// Where the source is sparse, all own units of an output block.
void update_weights(State& state, const LateUpdate& update, int lane) {
  const UnitLayer& unit = *state.units[update.layer];
  const auto connection = std::size_t(update.connection);
  const Connection& with = unit.connections[connection];
  state.stage(with.sparse_source() ? "sparse update" : stages_of(state.facts, update.layer).update);
  with.update(state.compute(), state.weight_step(state.edge_of(update.layer, connection)),
              state.output_of(unit.source_layers[connection], update.delta.rows()), update.delta,
              update.units, unit.block(), state.workspace[std::size_t(lane)]);
  const float limit = unit.descriptor().weight_norm;
  if (limit > 0.0f && !with.sparse_source() && !state.facts.bounds_sources_together(update.layer))
    clip_row_norms(state.compute(), limit, with.weights().values_of(update.units));
}

void add_to_gradient(State& state, int layer, std::size_t connection, const DenseOperand& delta,
                     Range units) {
  const UnitLayer& unit = *state.units[layer];
  const LayerOutput x = state.output_of(unit.source_layers[connection], delta.rows());
  const float scale = state.gradient_scale();
  state.stage(x.is_sparse ? "sparse update" : stages_of(state.facts, layer).update);
  for_blocks_of(unit, units, [&](Range part) {
    unit.connections[connection].gradient(
        state.compute(), scale, x, delta.columns(part.begin - units.begin, part.count()), part,
        state.shared_gradient(layer, connection).part.view());
  });
}

}  // namespace

const EdgeStages& stages_of(const StepFacts& facts, int layer) {
  static constexpr EdgeStages of_hidden{"hidden forward", "hidden input delta", "hidden update"};
  static constexpr EdgeStages of_output{"output forward", "output input delta", "output update"};
  return facts.is_output(layer) ? of_output : of_hidden;
}

void run_backward(State& state, int layer, std::span<const EdgeBackward> edges, Range units,
                  const DenseOperand& delta, int lane, bool stays) {
  using enum EdgeBackward::Update;
  const UnitLayer& unit = *state.units[layer];
  for (const EdgeBackward& edge : edges) {
    if (edge.sends)
      send_delta(state, unit, unit.connections[edge.connection],
                 *state.units[unit.source_layers[edge.connection]], delta, units, lane);
    const LateUpdate update{layer, int(edge.connection), delta, units};
    if (edge.update == into_gradient)
      add_to_gradient(state, layer, edge.connection, delta, units);
    else if (edge.update == may_wait && stays && state.collectives().overlaps())
      state.late.push_back(update);
    else if (edge.update != none)
      update_weights(state, update, lane);
  }
}

void count_backward(int layer, std::span<const EdgeBackward> edges, const StepFacts& facts,
                    WorkList& list) {
  for (const EdgeBackward& edge : edges) {
    if (edge.sends) list.input_delta(stages_of(facts, layer).input_delta, edge.edge);
    if (edge.update != EdgeBackward::Update::none)
      list.update(stages_of(facts, layer).update, edge.edge);
  }
}

void HiddenBlocks::run(State& state) const {
  const UnitLayer& unit = *state.units[layer];
  const DenseOperand& delta = state.deltas[layer];
  const Range blocks = state.facts.own_blocks(layer);
  if (state.facts.on_gpu() && blocks.count() > 0)
    run_backward(state, layer, edges, unit.mine(), delta, 0, true);
  else
    state.compute().executor.for_each(blocks.count(), [&](Index b, int lane) {
      const Range units = unit.partition().units(blocks.begin + b);
      const DenseOperand part = delta.columns(units.begin - unit.mine().begin, units.count());
      run_backward(state, layer, edges, units, part, lane, true);
    });
  keep_delta_by_source(state, layer, unit.mine(), delta.values);
}

void HiddenBlocks::work(const StepFacts& facts, WorkList& list) const {
  count_backward(layer, edges, facts, list);
}

void LateUpdates::run(State& state) const {
  for (const LateUpdate& update : std::exchange(state.late, {})) update_weights(state, update, 0);
}

void list_backward(std::span<const EdgeBackward> edges, TensorUses& uses) {
  using enum EdgeBackward::Update;
  uses.writes_lanes();
  for (const EdgeBackward& edge : edges) {
    const int source = uses.facts.edge(edge.edge).source;
    uses.reads_weights(edge.edge);
    uses.reads_activations(source);
    if (edge.sends) uses.adds_to_delta(source);
    if (edge.update == into_gradient)
      uses.updates(uses.tensors.shared[edge.edge]->part);
    else if (edge.update != none)
      uses.updates_weights(edge.edge);
  }
}

void HiddenBlocks::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(unit.deltas, unit.bf16_deltas);
  if (const auto& sum = uses.tensors.source_sums[layer]) uses.writes(sum->delta);
  list_backward(edges, uses);
}

void LateUpdates::tensors(TensorUses& uses) const {
  for (int edge : edges) {
    UnitLayer& unit = *uses.tensors.units[uses.facts.edge(edge).destination];
    uses.reads(unit.deltas, unit.bf16_deltas);
    uses.reads_activations(uses.facts.edge(edge).source);
    uses.updates_weights(edge);
  }
  if (!edges.empty()) uses.writes_lanes();
}

}  // namespace norn::step
