// SPDX-License-Identifier: Apache-2.0
// What ranks and devices make of the step of one rank.
#include "src/step/program.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace norn::step {
namespace {

// The layer that an op is for, or -1.
int layer_of(const Op& op) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.layer; })
          return one.layer;
        else
          return -1;
      },
      op);
}

// What ops say of themselves: docs/developer/adding_a_layer.md.
bool makes_pre_activations(const Op& op) {
  return std::visit(
      []<typename T>(const T&) {
        return requires {
          T::kMakesPreActivations;
        };
      },
      op);
}
bool makes_activations(const Op& op) {
  return std::visit(
      []<typename T>(const T&) {
        return requires {
          T::kMakesActivations;
        };
      },
      op);
}
bool takes_delta(const Op& op) {
  return std::visit(
      []<typename T>(const T&) {
        return requires {
          T::kTakesDelta;
        };
      },
      op);
}

// The edges that an op goes back through, or null.
std::vector<EdgeBackward>* edges_of(Op& op) {
  return std::visit(
      [](auto& one) -> std::vector<EdgeBackward>* {
        if constexpr (requires { std::span<EdgeBackward>(one.edges); })
          return &one.edges;
        else
          return nullptr;
      },
      op);
}

// Whether an op that has the choice makes loss and delta in the product; null where it has none.
bool* fuses(Op& op) {
  return std::visit(
      [](auto& one) -> bool* {
        if constexpr (requires { one.fuses; })
          return &one.fuses;
        else
          return nullptr;
      },
      op);
}

// Whether an op makes deltas where it uses them up: that of an output layer's blocks.
bool streams_deltas(Op& op) {
  return makes_pre_activations(op) && edges_of(op);
}

// How many ops of the same layer stand right before an op.
std::size_t ops_before(const Program& program, std::size_t op) {
  std::size_t count = 0;
  while (count < op && layer_of(program[op - count - 1]) == layer_of(program[op])) ++count;
  return count;
}

}  // namespace

// An edge by source is taken from the blocks of its destination: sums over the source's blocks come
// before the layer, and its delta goes back after its blocks. Layers that ranks join are gathered
// when their activations are there, and their deltas reduced before they are used. Where a layer by
// example feeds one by unit, its rows are gathered, also on one rank.
void share_out(Program& program, const StepFacts& facts) {
  const bool alone = facts.ranks() == 1;
  const bool reduces_maxima =
      !alone && std::any_of(facts.order().begin(), facts.order().end(),
                            [&](int layer) { return facts.sums_delta(layer); });
  std::set<int> summed;
  Program shared;
  for (Op& op : program) {
    const int layer = layer_of(op);
    if (makes_pre_activations(op) && facts.sums_over_sources(layer) && summed.insert(layer).second)
      shared.push_back(SumSources{layer});
    if (takes_delta(op) && !alone && facts.gathers(layer) && facts.sums_delta(layer)) {
      shared.push_back(BeginReduce{layer});
      shared.push_back(FinishReduce{layer});
    }
    if (reduces_maxima && std::holds_alternative<UpdateBiases>(op)) shared.push_back(BeginMaxima{});
    if (reduces_maxima && std::holds_alternative<EndStep>(op)) shared.push_back(FinishMaxima{});
    if (std::vector<EdgeBackward>* edges = edges_of(op))
      std::erase_if(*edges, [&](const EdgeBackward& edge) { return facts.by_source(edge.edge); });
    shared.push_back(op);
    if (makes_pre_activations(op) && makes_activations(op) && !alone && facts.gathers(layer) &&
        !facts.by_example(layer))
      shared.push_back(GatherActivations{layer});
    if (makes_activations(op) && facts.gathers_rows(layer)) shared.push_back(GatherRows{layer});
    if (edges_of(op) && facts.sums_over_sources(layer)) shared.push_back(SendBySource{layer});
  }
  program = std::move(shared);
}

// A device that has product, cost and delta in one kernel makes SoftMax's sums in the product, too.
void fuse_outputs(Program& program, const StepFacts& facts) {
  for (Op& blocks : program) {
    const int layer = layer_of(blocks);
    if (!streams_deltas(blocks) || !fuses(blocks) || !facts.may_fuse_delta(layer)) continue;
    for (Op& op : program)
      if (fuses(op) && layer_of(op) == layer) *fuses(op) = true;
  }
}

// Products read copies of activations that are complete: bf16 ones, or transposed for gradients.
void copy_operands(Program& program, const StepFacts& facts) {
  if (!facts.device().precision.rounds()) return;
  Program copied;
  for (std::size_t i = 0; i < program.size(); ++i) {
    copied.push_back(program[i]);
    const int layer = layer_of(program[i]);
    const bool goes_on = i + 1 < program.size() && makes_activations(program[i + 1]) &&
                         layer_of(program[i + 1]) == layer;
    const bool is_complete = facts.by_example(layer)
                                 ? std::holds_alternative<GatherRows>(program[i])
                                 : makes_activations(program[i]) && !goes_on;
    if (is_complete) copied.push_back(CopyActivations{layer});
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
    if (streams_deltas(program[i])) {
      const auto before = overlapped.end() - std::ptrdiff_t(ops_before(program, i));
      overlapped.insert(before, std::exchange(late, {}));
    }
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
