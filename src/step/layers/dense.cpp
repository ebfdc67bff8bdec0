// SPDX-License-Identifier: Apache-2.0
// What layers of fully connected networks hold, and their part of a step.
#include "src/step/layers/dense.h"

#include "src/step/block_group.h"
#include "src/step/program.h"

#include <algorithm>

namespace norn::step {

InputRoom::InputRoom(const StepFacts& facts, int layer) {
  const LayerDescriptor& descriptor = facts.layer(layer);
  if (weights_features(descriptor.input_weighting))
    feature_weights = {"weights of features", Purpose::working, descriptor.units(), 1,
                       Layout::whole};
}

OutputRoom::OutputRoom(const StepFacts& facts, int layer) {
  using enum Purpose;
  const Index batch = facts.batch();
  if (facts.may_fuse_delta(layer)) {
    target_runs.emplace(facts.mine(layer), facts.partition(layer).block_width(), batch);
    if (facts.sparse_input(layer)) {
      target_places.declared = {"places of stored targets", working,
                                target_runs->planned_numbers()};
      target_places.declared.element = element_name<int>();
    }
  }
  if (facts.is_softmax(layer)) {
    const char* rows = "sums of SoftMax rows";
    const Index blocks = facts.own_blocks(layer).count();
    block_maximum = {rows, working, blocks, batch};
    block_sum = {rows, working, blocks, batch};
    if (facts.ranks() > 1) rank_maximum = {rows, working, facts.ranks(), batch, Layout::whole};
    maximum = {rows, working, batch, 1, Layout::whole};
    total = {rows, working, batch, 1, Layout::whole};
    coupling = {rows, working, batch, 1, Layout::whole};
  }
  if (facts.keeps_z(layer))
    kept_z = {"pre-activations", working,
              kept_columns(facts.partition(layer), facts.own_blocks(layer).count(),
                           facts.units(layer), facts.training()),
              batch};
}

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

void OutputRoom::outputs(const StepFacts& facts, int layer, OpList& ops) {
  search(facts, layer, ops);
  ops.add(OutputValues{layer});
}

void OutputRoom::cost(const StepFacts& facts, int layer, bool visits, OpList& ops) {
  if (facts.is_softmax(layer)) ops.add(ReduceSoftMaxRows{layer, true, false});
  ops.add(CostBlocks{layer, visits});
}

void OutputRoom::search(const StepFacts& facts, int layer, OpList& ops) {
  if (facts.is_softmax(layer)) ops.add(ReduceSoftMaxRows{layer, false, false});
}

namespace {

// Whether a higher pre-activation never gives a lower score, rounding apart.
bool keeps_order(const LayerActivation& activation) {
  const Activation* pointwise = std::get_if<Activation>(&activation);
  return !pointwise || std::visit([](const auto& f) { return f.searched_by_z; }, *pointwise);
}

}  // namespace

bool OutputRoom::is_searched(const StepFacts& facts, int layer) {
  const std::vector<int>& sources = facts.matrices(layer);
  return sources.size() == 1 && facts.begins_with_bias(sources[0]) &&
         !facts.is_input(facts.edge(sources[0]).source) && facts.unit_edges(layer).empty() &&
         keeps_order(facts.layer(layer).activation);
}

ScoredUnits OutputRoom::scored_units(const State& state, int layer, Range units, Index examples) {
  const UnitLayer& unit = *state.units[layer];
  return {
      state.output_of(unit.source_layers[0], examples).dense, unit.connections[0].operand(units),
      unit.bias.value.view().range(units.begin - unit.mine().begin, units.count()), units.begin};
}

void OutputRoom::score(State& state, int layer, MatrixView<float> found) {
  activate_block(state, layer, found);
}

}  // namespace norn::step
