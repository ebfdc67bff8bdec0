// SPDX-License-Identifier: Apache-2.0
// Sums over sources, and deltas that go back to them.
#include "src/step/ops/source_edges.h"

#include "src/step/ops/blocks.h"

namespace norn::step {

void reduce_accumulators(State& state, DeltaSum& sum, std::span<const Range> shares) {
  Collectives& collectives = state.collectives();
  sum.reduce(
      state.compute(),
      [&](std::span<const MatrixView<std::int64_t>> accumulators) {
        collectives.reduce_scatter_columns(accumulators, shares);
      },
      [&](std::span<std::int64_t> flags) { collectives.all_reduce_sum(flags); });
}

void reduce_accumulator_rows(State& state, DeltaSum& sum, std::span<const Range> shares) {
  Collectives& collectives = state.collectives();
  sum.reduce(
      state.compute(),
      [&](std::span<const MatrixView<std::int64_t>> accumulators) {
        collectives.reduce_scatter_rows(accumulators, shares);
      },
      [&](std::span<std::int64_t> flags) { collectives.all_reduce_sum(flags); });
}

void SumSources::run(State& state) const {
  const StepFacts& facts = state.facts;
  SourceSum& sum = *state.source_sums[layer];
  const UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  DeltaSum& parts = sum.parts;
  const Index width = unit.partition().width();
  state.stage(stages_of(facts, layer).forward);
  for (std::size_t c = 0; c < unit.connections.size(); ++c) {
    const Connection& connection = unit.connections[c];
    if (!connection.by_source()) continue;
    const int source = unit.source_layers[c];
    const DenseOperand x = state.output_of(source).dense;
    const Range blocks = facts.own_blocks(source);
    compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
      const Range units = facts.partition(source).units(blocks.begin + b);
      MatrixView<float> part = parts.next_slot(compute);
      if (part.data == nullptr)
        part = {state.workspace[std::size_t(lane)].dx.view().data, state.examples(), width, width};
      connection.forward_part(compute, x.columns(units.begin, units.count()), units, part);
      parts.add(compute, 0, part);
    });
  }
  if (!state.is_alone()) {
    state.stage("sum over sources");
    reduce_accumulators(state, parts, facts.shares(layer));
  }
  state.stage("fixed point");
  parts.take(compute, unit.mine().begin, sum.z.first_rows(state.examples()));
}

void SumSources::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer)) {
    if (!facts.by_source(edge)) continue;
    const double partial_sums = double(facts.own_blocks(facts.edge(edge).source).count());
    list.product(stages_of(facts, layer).forward, edge, partial_sums);
    list.partial_sums(list.batch() * double(facts.layer(layer).units()), partial_sums);
  }
}

void SumSources::traffic(const StepFacts&, TrafficList& list) const {
  list.accumulators("sum over sources", layer);
}

void add_source_sum(State& state, int layer, Range units, MatrixView<float> z) {
  SourceSum* sum = state.source_sums[layer].get();
  if (!sum) return;
  state.kernels().pointwise->add(
      sum->z.first_rows(z.rows).columns(units.begin - state.facts.mine(layer).begin, units.count()),
      z);
}

void keep_delta_by_source(State& state, int layer, Range units, MatrixView<const float> delta) {
  SourceSum* sum = state.source_sums[layer].get();
  if (!sum || units.count() == 0) return;
  state.kernels().pointwise->copy(
      delta, sum->delta.first_rows(delta.rows).columns(units.begin, units.count()));
}

namespace {

void send_to_source(State& state, int layer, std::size_t c, const DenseOperand& delta) {
  const Connection& connection = state.units[layer]->connections[c];
  const int source_layer = state.units[layer]->source_layers[c];
  const EdgeStages& stages = stages_of(state.facts, layer);
  UnitLayer& source = *state.units[source_layer];
  const Range mine = source.mine();
  if (mine.count() == 0) return;
  Compute& compute = state.compute();
  const WeightStep step = state.weight_step(state.edge_of(layer, c));
  const DenseOperand x = state.output_of(source_layer).dense;
  const MatrixView<float> term = source.delta_sum.next_slot(compute);
  const Range blocks = state.facts.own_blocks(source_layer);
  compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
    const Range units = source.partition().units(blocks.begin + b);
    Workspace& workspace = state.workspace[std::size_t(lane)];
    MatrixView<float> dx{workspace.dx.view().data, delta.rows(), units.count(), units.count()};
    if (term.data != nullptr) dx = term.columns(units.begin - mine.begin, units.count());
    state.stage(stages.input_delta);
    connection.source_delta(compute, delta, units, dx);
    if (term.data == nullptr) source.delta_sum.add(compute, units.begin, dx);
    state.stage(stages.update);
    connection.update_by_source(compute, step, x.columns(units.begin, units.count()), delta, units,
                                workspace);
  });
  if (term.data != nullptr) source.delta_sum.add(compute, mine.begin, term);
}

}  // namespace

void SendBySource::run(State& state) const {
  SourceSum& sum = *state.source_sums[layer];
  const UnitLayer& unit = *state.units[layer];
  const MatrixView<float> whole = sum.delta.first_rows(state.examples());
  if (!state.is_alone()) state.stage("gather deltas");
  state.collectives().all_gather_columns(whole, state.facts.shares(layer));
  DenseOperand delta(whole);
  if (!sum.bf16_delta.empty()) {
    delta.bf16 = sum.bf16_delta.first_rows(state.examples());
    state.kernels().pointwise->cast_to_bf16(whole, sum.bf16_delta.first_rows(state.examples()));
  }
  for (std::size_t c = 0; c < unit.connections.size(); ++c)
    if (unit.connections[c].by_source()) send_to_source(state, layer, c, delta);
}

void SendBySource::work(const StepFacts& facts, WorkList& list) const {
  const EdgeStages& stages = stages_of(facts, layer);
  for (int edge : facts.matrices(layer)) {
    if (!facts.by_source(edge)) continue;
    list.input_delta(stages.input_delta, edge);
    list.update(stages.update, edge);
  }
}

void SendBySource::traffic(const StepFacts&, TrafficList& list) const {
  list.gather_columns("gather deltas", layer, kFloat);
}

void SumSources::tensors(TensorUses& uses) const {
  SourceSum& sum = *uses.tensors.source_sums[layer];
  for (int edge : uses.facts.matrices(layer)) {
    if (!uses.facts.by_source(edge)) continue;
    uses.reads_weights(edge);
    uses.reads_activations(uses.facts.edge(edge).source);
  }
  uses.adds_to(sum.parts);
  uses.writes(sum.z);
  uses.writes_lanes();
}

void SendBySource::tensors(TensorUses& uses) const {
  SourceSum& sum = *uses.tensors.source_sums[layer];
  uses.updates(sum.delta);
  uses.writes(sum.bf16_delta);
  uses.writes_lanes();
  for (int edge : uses.facts.matrices(layer)) {
    if (!uses.facts.by_source(edge)) continue;
    const int source = uses.facts.edge(edge).source;
    uses.reads_activations(source);
    uses.adds_to_delta(source);
    uses.updates_weights(edge);
  }
}

}  // namespace norn::step
