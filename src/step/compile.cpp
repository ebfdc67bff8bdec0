// SPDX-License-Identifier: Apache-2.0
// How a step goes. Read it from top to bottom.
#include "src/step/program.h"

#include <algorithm>

namespace norn::step {
namespace {

// Sources first.
void forward(const StepFacts& facts, bool learns, OpList& ops) {
  for (int layer : facts.order())
    with_room(facts.layer(layer), [&]<typename Room>(std::type_identity<Room>) {
      Room::forward(facts, layer, learns, ops);
    });
}

void backward(const StepFacts& facts, int layer, OpList& ops) {
  with_room(facts.layer(layer),
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
  if (facts.is_softmax(layer)) ops.add(ReduceSoftMaxRows{layer, false, false});
  ops.add(OutputValues{layer});
  return finished(facts, ops);
}

Program compile_search(const StepFacts& facts, int layer) {
  OpList ops = forward_only(facts, false);
  if (facts.is_softmax(layer)) ops.add(ReduceSoftMaxRows{layer, false, false});
  return finished(facts, ops);
}

Program compile_cost(const StepFacts& facts, int visited) {
  OpList ops = forward_only(facts, true);
  for (int layer : facts.order()) {
    if (!facts.is_output(layer)) continue;
    if (facts.is_softmax(layer)) ops.add(ReduceSoftMaxRows{layer, true, false});
    ops.add(CostBlocks{layer, layer == visited});
  }
  return finished(facts, ops);
}

// The layers of a dense autoencoder. Other kinds say theirs in src/step/layers.

void InputRoom::forward(const StepFacts& facts, int layer, bool learns, OpList& ops) {
  if (!learns || !facts.sparse_input(layer)) return;
  for (int edge : facts.graph().destinations[std::size_t(layer)])
    if (facts.edge_takes_part(edge) && facts.has_weights(edge) && facts.owner(edge) == edge &&
        !facts.is_shared(edge))
      ops.add(CatchUpRows{edge});
}

void HiddenRoom::forward(const StepFacts& facts, int layer, bool, OpList& ops) {
  ops.add(HiddenForward{layer});
  if (facts.is_softmax(layer)) ops.add(HiddenSoftMax{layer});
}

namespace {

// What the delta of a layer's blocks does to each of its sources.
std::vector<EdgeBackward> backward_edges(const StepFacts& facts, int layer) {
  using enum EdgeBackward::Update;
  std::vector<EdgeBackward> edges;
  const std::vector<int>& sources = facts.matrices(layer);
  for (std::size_t c = 0; c < sources.size(); ++c) {
    const int edge = sources[c];
    EdgeBackward backward{edge, c, !facts.is_input(facts.edge(edge).source), at_once};
    if (facts.is_shared(edge)) backward.update = into_gradient;
    if (facts.is_sparse_source(edge) && facts.is_hidden(layer)) backward.update = none;
    edges.push_back(backward);
  }
  return edges;
}

void finish_backward(const StepFacts& facts, int layer, OpList& ops) {
  const std::vector<int>& sources = facts.matrices(layer);
  if (std::ranges::any_of(sources, [&](int edge) { return facts.is_sparse_source(edge); })) {
    if (facts.is_hidden(layer)) ops.add(UpdateRows{layer});
    ops.add(FinishRows{layer});
  }
  if (std::ranges::any_of(sources, [&](int edge) { return facts.is_shared(edge); }))
    ops.add(AddSharedGradients{layer});
}

}  // namespace

void HiddenRoom::backward(const StepFacts& facts, int layer, OpList& ops) {
  ops.add(HiddenDelta{layer});
  ops.add(HiddenBlocks{layer, backward_edges(facts, layer)});
  finish_backward(facts, layer, ops);
}

void OutputRoom::backward(const StepFacts& facts, int layer, OpList& ops) {
  if (facts.is_softmax(layer)) ops.add(ReduceSoftMaxRows{layer, true, false});
  if (facts.layer(layer).delta_norm > 0.0f) ops.add(DeltaNorms{layer});
  ops.add(OutputBlocks{layer, false, backward_edges(facts, layer)});
  finish_backward(facts, layer, ops);
}

}  // namespace norn::step
