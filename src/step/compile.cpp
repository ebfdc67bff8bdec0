// SPDX-License-Identifier: Apache-2.0
// How a step goes. Read it from top to bottom.
#include "src/step/program.h"

#include <algorithm>

namespace norn::step {
namespace {

// Sources first.
void forward(const StepFacts& facts, bool learns, OpList& ops) {
  for (int layer : facts.order())
    with_room(facts, layer, [&]<typename Room>(std::type_identity<Room>) {
      Room::forward(facts, layer, learns, ops);
    });
}

void backward(const StepFacts& facts, int layer, OpList& ops) {
  with_room(facts, layer,
            [&]<typename Room>(std::type_identity<Room>) { Room::backward(facts, layer, ops); });
}

void finish(const StepFacts& facts, OpList& ops) {
  ops.add(UpdateBiases{});
  for (int edge = 0; edge < facts.edges(); ++edge)
    if (facts.owner(edge) == edge && facts.users(edge) > 1) ops.add(UpdateShared{edge});
  for (int layer : facts.order())
    if (!facts.is_input(layer) && facts.bounds_sources_together(layer))
      ops.add(BoundWeights{layer});
  ops.add(EndStep{});
}

// What several ranks and the device make of it.
Program finished(const StepFacts& facts, OpList& ops) {
  share_out(ops.list, facts);
  fuse_outputs(ops.list, facts);
  copy_operands(ops.list, facts);
  overlap_updates(ops.list, facts);
  return std::move(ops.list);
}

OpList forward_only(const StepFacts& facts, bool costs) {
  OpList ops;
  ops.add(BeginForward{costs});
  forward(facts, false, ops);
  return ops;
}

}  // namespace

// Destinations first.
Program compile_training(const StepFacts& facts) {
  OpList ops;
  ops.add(BeginStep{});
  forward(facts, true, ops);
  ops.add(BeginOutputs{});
  for (int layer : facts.order())
    if (facts.is_output(layer)) backward(facts, layer, ops);
  for (auto it = facts.order().rbegin(); it != facts.order().rend(); ++it)
    if (facts.wants_delta(*it)) backward(facts, *it, ops);
  finish(facts, ops);
  return finished(facts, ops);
}

Program compile_activations(const StepFacts& facts) {
  OpList ops = forward_only(facts, false);
  return finished(facts, ops);
}

Program compile_outputs(const StepFacts& facts, int layer) {
  OpList ops = forward_only(facts, false);
  with_room(facts, layer,
            [&]<typename Room>(std::type_identity<Room>) { Room::outputs(facts, layer, ops); });
  return finished(facts, ops);
}

Program compile_search(const StepFacts& facts, int layer) {
  OpList ops = forward_only(facts, false);
  with_room(facts, layer,
            [&]<typename Room>(std::type_identity<Room>) { Room::search(facts, layer, ops); });
  return finished(facts, ops);
}

bool is_searched(const StepFacts& facts, int layer) {
  bool searched = false;
  with_room(facts, layer, [&]<typename Room>(std::type_identity<Room>) {
    searched = Room::is_searched(facts, layer);
  });
  return searched;
}

ScoredUnits scored_units(const State& state, int layer, Range units, Index examples) {
  ScoredUnits scored;
  with_room(state.facts, layer, [&]<typename Room>(std::type_identity<Room>) {
    scored = Room::scored_units(state, layer, units, examples);
  });
  return scored;
}

void score(State& state, int layer, MatrixView<float> found) {
  with_room(state.facts, layer,
            [&]<typename Room>(std::type_identity<Room>) { Room::score(state, layer, found); });
}

Program compile_cost(const StepFacts& facts, int visited) {
  OpList ops = forward_only(facts, true);
  for (int layer : facts.order())
    with_room(facts, layer, [&]<typename Room>(std::type_identity<Room>) {
      Room::cost(facts, layer, layer == visited, ops);
    });
  return finished(facts, ops);
}

}  // namespace norn::step
