// SPDX-License-Identifier: Apache-2.0
// Forward and backward of all edges from unit to unit into a layer.
#include "src/step/ops/unit_edges.h"

#include "src/step/layers/own_examples.h"

namespace norn::step {
namespace {

// body(edge, its room, the source's activations [B x units])
template <typename Body>
void for_edges(State& state, int layer, Range units, Index examples, const Body& body) {
  const std::vector<int>& edges = state.facts.unit_edges(layer);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const UnitEdge edge{state.facts.edge(edges[i]), int(i)};
    const MatrixView<const float> all = state.output_of(edge.edge.source, examples).dense.values;
    const MatrixView<const float> x =
        edge.edge.from_all() ? all : all.columns(units.begin, units.count());
    std::visit([&](auto& room) { body(edge, room, x); }, state.unit_edges[layer][i]);
  }
}

// body(edge, its room, what the source gives for these examples)
template <typename Body>
void for_edges_of_rows(State& state, int layer, Range rows, const Body& body) {
  const std::vector<int>& edges = state.facts.unit_edges(layer);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const UnitEdge edge{state.facts.edge(edges[i]), int(i)};
    const MatrixView<const float> x = rows_of(state, edge.edge.source, rows).values;
    std::visit([&](auto& room) { body(edge, room, x); }, state.unit_edges[layer][i]);
  }
}

}  // namespace

void add_by_unit(State& state, int layer, Range units, MatrixView<float> z) {
  for_edges(state, layer, units, z.rows, [&](const UnitEdge& edge, auto& room, const auto& x) {
    room.forward(state, edge, units, x, z);
  });
}

void backward_by_unit(State& state, int layer, Range units, MatrixView<const float> delta,
                      int lane) {
  for_edges(state, layer, units, delta.rows, [&](const UnitEdge& edge, auto& room, const auto& x) {
    room.backward(state, edge, units, x, delta, lane);
  });
}

void add_rows_by_unit(State& state, int layer, Range rows, MatrixView<float> z) {
  for_edges_of_rows(state, layer, rows, [&](const UnitEdge& edge, auto& room, const auto& x) {
    room.forward(state, edge, {0, z.cols}, x, z);
  });
}

void backward_rows_by_unit(State& state, int layer, Range rows, MatrixView<const float> delta) {
  for_edges_of_rows(state, layer, rows, [&](const UnitEdge& edge, auto& room, const auto& x) {
    room.backward(state, edge, {0, delta.cols}, x, delta, 0);
  });
}

void send_by_unit(State& state, const UnitEdge& edge, Range units, MatrixView<const float> delta) {
  UnitLayer* source = state.units[edge.edge.source].get();
  if (!source) return;
  const int destination = edge.edge.destination;
  if (state.facts.by_example(destination))
    send_own_rows(state, state.facts.unit_edges(destination)[std::size_t(edge.position)], delta);
  else
    source->delta_sum.add(state.compute(), units.begin, delta);
}

void list_backward_by_unit(int layer, TensorUses& uses) {
  const std::vector<int>& edges = uses.facts.unit_edges(layer);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const int source = uses.facts.edge(edges[i]).source;
    uses.adds_to_delta(source);
    bool learns = false;
    std::visit(
        [&](auto& room) {
          room.for_each_tensor([&](auto& array) {
            const bool stays = array.tensor().purpose != Purpose::working;
            stays ? uses.updates(array) : uses.writes(array);
            learns = true;
          });
        },
        uses.tensors.unit_edges[layer][i]);
    if (learns) uses.reads_activations(source);
  }
}

}  // namespace norn::step
