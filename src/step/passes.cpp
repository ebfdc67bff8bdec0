// SPDX-License-Identifier: Apache-2.0
// What ranks and devices make of the step of one rank.
#include "src/step/program.h"

#include <algorithm>
#include <set>
#include <utility>

namespace norn::step {
namespace {

// The layer whose pre-activations an op makes, or -1.
int layer_of_forward(const Op& op) {
  return std::visit(
      []<typename T>(const T& one) {
        if constexpr (requires { T::kMakesPreActivations; }) return one.layer;
        return -1;
      },
      op);
}

std::vector<EdgeBackward>* edges_of(Op& op) {
  if (auto* output = std::get_if<OutputBlocks>(&op)) return &output->edges;
  if (auto* hidden = std::get_if<HiddenBlocks>(&op)) return &hidden->edges;
  return nullptr;
}

int layer_of_blocks(const Op& op) {
  if (const auto* output = std::get_if<OutputBlocks>(&op)) return output->layer;
  return std::get<HiddenBlocks>(op).layer;
}

// The layer whose activations an op makes or completes, or -1.
int layer_of_activations(const Op& op) {
  return std::visit(
      []<typename T>(const T& one) {
        if constexpr (requires { T::kMakesActivations; }) return one.layer;
        return -1;
      },
      op);
}

// The first of the ops of one output layer, of which this is its blocks'.
std::size_t first_of_output(const Program& program, std::size_t blocks) {
  const int layer = std::get<OutputBlocks>(program[blocks]).layer;
  const auto is_of_layer = [&](const Op& op) {
    const auto* sums = std::get_if<SumSources>(&op);
    const auto* rows = std::get_if<ReduceSoftMaxRows>(&op);
    const auto* norms = std::get_if<DeltaNorms>(&op);
    return (sums && sums->layer == layer) || (rows && rows->layer == layer) ||
           (norms && norms->layer == layer);
  };
  while (blocks > 0 && is_of_layer(program[blocks - 1])) --blocks;
  return blocks;
}

}  // namespace

// An edge by source is taken from the blocks of its destination: sums over the source's blocks come
// before the layer, and its delta goes back after its blocks. Layers that ranks join are gathered
// when their activations are there, and their deltas reduced before they are used.
void share_out(Program& program, const StepFacts& facts) {
  const bool alone = facts.ranks() == 1;
  const bool reduces_maxima =
      !alone && std::any_of(facts.order().begin(), facts.order().end(),
                            [&](int layer) { return facts.wants_delta(layer); });
  std::set<int> summed;
  Program shared;
  for (Op& op : program) {
    const int made = layer_of_forward(op);
    if (made >= 0 && facts.sums_over_sources(made) && summed.insert(made).second)
      shared.push_back(SumSources{made});
    const auto* delta = std::get_if<HiddenDelta>(&op);
    if (delta && !alone && facts.gathers(delta->layer)) {
      shared.push_back(BeginReduce{delta->layer});
      shared.push_back(FinishReduce{delta->layer});
    }
    if (reduces_maxima && std::holds_alternative<UpdateBiases>(op)) shared.push_back(BeginMaxima{});
    if (reduces_maxima && std::holds_alternative<EndStep>(op)) shared.push_back(FinishMaxima{});
    if (std::vector<EdgeBackward>* edges = edges_of(op))
      std::erase_if(*edges, [&](const EdgeBackward& edge) { return facts.by_source(edge.edge); });
    shared.push_back(op);
    if (made >= 0 && layer_of_activations(op) == made && !alone && facts.gathers(made))
      shared.push_back(GatherActivations{made});
    if (edges_of(op) && facts.sums_over_sources(layer_of_blocks(op)))
      shared.push_back(SendBySource{layer_of_blocks(op)});
  }
  program = std::move(shared);
}

// A device that has product, cost and delta in one kernel makes SoftMax's sums in the product, too.
void fuse_outputs(Program& program, const StepFacts& facts) {
  for (Op& op : program) {
    auto* blocks = std::get_if<OutputBlocks>(&op);
    if (!blocks || !facts.may_fuse_delta(blocks->layer)) continue;
    blocks->fuses = true;
    for (Op& other : program)
      if (auto* rows = std::get_if<ReduceSoftMaxRows>(&other); rows && rows->layer == blocks->layer)
        rows->fuses = true;
  }
}

// Products read copies of activations that are complete: bf16 ones, or transposed for gradients.
void copy_operands(Program& program, const StepFacts& facts) {
  if (!facts.device().casts_operands && !facts.device().transposes_operands) return;
  Program copied;
  for (std::size_t i = 0; i < program.size(); ++i) {
    copied.push_back(program[i]);
    const bool goes_on = i + 1 < program.size() &&
                         layer_of_activations(program[i + 1]) == layer_of_activations(program[i]);
    const int layer = layer_of_activations(program[i]);
    if (layer >= 0 && !goes_on) copied.push_back(CopyActivations{layer});
  }
  program = std::move(copied);
}

// An update goes with the next exchange, as a whole: parts, one with each exchange to come, were
// slower for small batches. Several lanes would write over deltas that wait, and so would the next
// output layer's blocks.
void overlap_updates(Program& program, const StepFacts& facts) {
  const auto is_exchange = [](const Op& op) { return std::holds_alternative<BeginReduce>(op); };
  const auto last = std::find_if(program.rbegin(), program.rend(), is_exchange);
  if (last == program.rend() || facts.settings().lanes > 1) return;
  const auto end = std::size_t(last.base() - program.begin());
  Program overlapped;
  LateUpdates late;  // that wait
  for (std::size_t i = 0; i < program.size(); ++i) {
    const bool is_output = std::holds_alternative<OutputBlocks>(program[i]);
    if (is_output)
      overlapped.insert(overlapped.end() - std::ptrdiff_t(i - first_of_output(program, i)),
                        std::exchange(late, {}));
    overlapped.push_back(program[i]);
    std::vector<EdgeBackward>* edges = i < end ? edges_of(overlapped.back()) : nullptr;
    for (std::size_t e = 0; edges && e < edges->size(); ++e) {
      EdgeBackward& edge = (*edges)[e];
      if (edge.update != EdgeBackward::Update::at_once || facts.is_sparse_source(edge.edge))
        continue;
      edge.update = EdgeBackward::Update::may_wait;
      late.edges.push_back(edge.edge);
    }
    if (is_exchange(program[i])) overlapped.push_back(std::exchange(late, {}));
  }
  program = std::move(overlapped);
}

}  // namespace norn::step
