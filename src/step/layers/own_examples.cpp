// SPDX-License-Identifier: Apache-2.0
// Rows of the own examples, and deltas that go down to their sources.
#include "src/step/layers/own_examples.h"

namespace norn::step {

OwnRows own_rows(const StepFacts& facts, int layer, Index examples) {
  const ExamplePartition cut = ExamplePartition::make(examples);
  OwnRows own{facts.own_examples(examples), {}, facts.places(layer)};
  const Range runs = ExamplePartition::runs_of(facts.settings().rank, facts.ranks());
  for (Index run = runs.begin; run < runs.end; ++run) {
    const Range rows = cut.examples(run);
    if (rows.count() > 0)
      own.runs.push_back({rows.begin - own.examples.begin, rows.end - own.examples.begin});
  }
  return own;
}

DenseOperand rows_of(State& state, int source, Range own) {
  if (state.units[source] && state.facts.by_example(source))
    return state.units[source]->rows(own.count());
  const LayerOutput all = state.output_of(source);
  return all.dense.row_range(own.begin - all.first, own.count());
}

MatrixView<float> place_to_send(State& state, int edge, Range own) {
  const int source = state.facts.edge(edge).source;
  if (state.facts.by_example(source) && state.facts.sends_first(edge))
    return state.units[source]->examples_of(state.units[source]->deltas, own.count());
  const Index width = state.facts.layer(source).units();
  return {state.workspace[0].dx.view().data + own.begin * width, own.count(), width, width};
}

void send(State& state, int edge, Range own) {
  const int source = state.facts.edge(edge).source;
  UnitLayer& to = *state.units[source];
  const MatrixView<float> part = place_to_send(state, edge, own);
  if (state.facts.by_example(source)) {
    if (!state.facts.sends_first(edge) && !part.empty())
      state.kernels().pointwise->add(part, to.examples_of(to.deltas, own.count()));
    return;
  }
  const Index width = part.cols;
  float* const all = state.workspace[0].dx.view().data;
  const auto clear = [&](Index first, Index end) {
    if (end > first)
      state.compute().memory.fill_zero(all + first * width,
                                       std::size_t((end - first) * width) * sizeof(float));
  };
  clear(0, own.begin);
  clear(own.end, state.examples());
  state.stage("fixed point");
  to.delta_sum.add(state.compute(), 0, {all, state.examples(), width, width});
}

void send_own_rows(State& state, int edge, MatrixView<const float> delta) {
  const Range own = state.facts.own_examples(state.examples());
  if (!delta.empty()) state.kernels().pointwise->copy(delta, place_to_send(state, edge, own));
  send(state, edge, own);
}

}  // namespace norn::step
