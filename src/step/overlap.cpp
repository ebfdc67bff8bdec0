// SPDX-License-Identifier: Apache-2.0
// Updates of weights that nothing waits for, beside what ranks exchange
// (docs/developer/decisions/0014-overlap.md).
#include "src/step/program.h"

#include <algorithm>

namespace norn::step {
namespace {

std::vector<EdgeBackward>* edges_of(Op& op) {
  if (auto* output = std::get_if<OutputBlocks>(&op)) return &output->edges;
  if (auto* hidden = std::get_if<HiddenBlocks>(&op)) return &hidden->edges;
  return nullptr;
}

// The first of the ops of one output layer, of which this is its blocks'.
std::size_t first_of_output(const Program& program, std::size_t blocks) {
  const int layer = std::get<OutputBlocks>(program[blocks]).layer;
  const auto is_of_layer = [&](const Op& op) {
    const auto* sums = std::get_if<SumSources>(&op);
    const auto* rows = std::get_if<JoinSoftMaxRows>(&op);
    const auto* norms = std::get_if<DeltaNorms>(&op);
    return (sums && sums->layer == layer) || (rows && rows->layer == layer) ||
           (norms && norms->layer == layer);
  };
  while (blocks > 0 && is_of_layer(program[blocks - 1])) --blocks;
  return blocks;
}

}  // namespace

// An update goes with the next exchange, as a whole: parts, one with each exchange to come, were
// slower for small batches. Several lanes would write over deltas that wait, and so would the next
// output layer's blocks.
void overlap_updates(Program& program, const StepFacts& facts) {
  const auto is_exchange = [](const Op& op) { return std::holds_alternative<BeginReduce>(op); };
  const auto last = std::find_if(program.rbegin(), program.rend(), is_exchange);
  if (last == program.rend() || facts.settings().lanes > 1) return;
  for (auto op = program.begin(); op != last.base(); ++op)
    if (std::vector<EdgeBackward>* edges = edges_of(*op))
      for (EdgeBackward& edge : *edges)
        if (edge.update == EdgeBackward::Update::at_once && !facts.is_sparse_source(edge.edge))
          edge.update = EdgeBackward::Update::may_wait;
  std::vector<std::size_t> places;  // before which what waits is done
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (std::holds_alternative<OutputBlocks>(program[i]))
      places.push_back(first_of_output(program, i));
    if (is_exchange(program[i])) places.push_back(i + 1);
  }
  for (auto place = places.rbegin(); place != places.rend(); ++place)
    program.insert(program.begin() + std::ptrdiff_t(*place), LateUpdates{});
}

}  // namespace norn::step
