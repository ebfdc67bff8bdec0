// SPDX-License-Identifier: Apache-2.0
// How a step goes. Read compile_training() from top to bottom.
#include "src/step/program.h"

#include <algorithm>

namespace norn::step {
namespace {

// What the delta of a layer's blocks does to each of its sources.
std::vector<EdgeBackward> backward_edges(const StepFacts& facts, int layer) {
  using enum EdgeBackward::Update;
  std::vector<EdgeBackward> edges;
  const std::vector<int>& sources = facts.sources(layer);
  for (std::size_t c = 0; c < sources.size(); ++c) {
    const int edge = sources[c];
    EdgeBackward backward{edge, c, !facts.is_input(facts.edge(edge).source), at_once};
    if (facts.is_shared(edge)) backward.update = into_gradient;
    if (facts.is_sparse_source(edge) && facts.is_hidden(layer)) backward.update = none;
    edges.push_back(backward);
  }
  return edges;
}

bool has_sparse_source(const StepFacts& facts, int layer) {
  return std::any_of(facts.sources(layer).begin(), facts.sources(layer).end(),
                     [&](int edge) { return facts.is_sparse_source(edge); });
}

bool has_shared_source(const StepFacts& facts, int layer) {
  return std::any_of(facts.sources(layer).begin(), facts.sources(layer).end(),
                     [&](int edge) { return facts.is_shared(edge); });
}

class Compiler {
 public:
  explicit Compiler(const StepFacts& facts) : facts_(facts) {}

  Program training() {
    add(BeginStep{});
    forward(true);
    add(BeginOutputs{});
    for (int layer : facts_.order())
      if (facts_.is_output(layer)) output(layer);
    for (auto it = facts_.order().rbegin(); it != facts_.order().rend(); ++it)
      if (facts_.wants_delta(*it)) hidden_backward(*it);
    finish();
    return finished();
  }

  Program activations() {
    add(BeginForward{});
    forward(false);
    return finished();
  }

  Program outputs(int layer) {
    add(BeginForward{});
    forward(false);
    if (facts_.is_softmax(layer)) add(ReduceSoftMaxRows{layer, false, false});
    add(OutputValues{layer});
    return finished();
  }

  Program search(int layer) {
    add(BeginForward{});
    forward(false);
    if (facts_.is_softmax(layer)) add(ReduceSoftMaxRows{layer, false, false});
    return finished();
  }

  Program cost(int visited) {
    add(BeginForward{true});
    forward(false);
    for (int layer : facts_.order()) {
      if (!facts_.is_output(layer)) continue;
      if (facts_.is_softmax(layer)) add(ReduceSoftMaxRows{layer, true, false});
      add(CostBlocks{layer, layer == visited});
    }
    return finished();
  }

 private:
  void add(Op op) { program_.push_back(std::move(op)); }

  // What several ranks and the device make of it.
  Program finished() {
    share_out(program_, facts_);
    fuse_outputs(program_, facts_);
    copy_operands(program_, facts_);
    overlap_updates(program_, facts_);
    return std::move(program_);
  }

  // Sources first.
  void forward(bool learns) {
    for (int layer : facts_.order()) {
      if (facts_.is_input(layer) && learns) catch_up(layer);
      if (!facts_.is_hidden(layer)) continue;
      add(HiddenForward{layer});
      if (facts_.is_softmax(layer)) add(HiddenSoftMax{layer});
    }
  }

  void catch_up(int input) {
    if (!facts_.sparse_input(input)) return;
    for (int edge : facts_.graph().destinations[std::size_t(input)])
      if (facts_.edge_takes_part(edge) && facts_.owner(edge) == edge && !facts_.is_shared(edge))
        add(CatchUpRows{edge});
  }

  void output(int layer) {
    if (facts_.is_softmax(layer)) add(ReduceSoftMaxRows{layer, true, false});
    if (facts_.layer(layer).delta_norm > 0.0f) add(DeltaNorms{layer});
    add(OutputBlocks{layer, false, backward_edges(facts_, layer)});
    finish_backward(layer);
  }

  // Destinations first.
  void hidden_backward(int layer) {
    add(HiddenDelta{layer});
    add(HiddenBlocks{layer, backward_edges(facts_, layer)});
    finish_backward(layer);
  }

  void finish_backward(int layer) {
    if (has_sparse_source(facts_, layer)) {
      if (facts_.is_hidden(layer)) add(UpdateRows{layer});
      add(FinishRows{layer});
    }
    if (has_shared_source(facts_, layer)) add(AddSharedGradients{layer});
  }

  void finish() {
    add(UpdateBiases{});
    for (int edge = 0; edge < facts_.edges(); ++edge)
      if (facts_.owner(edge) == edge && facts_.users(edge) > 1) add(UpdateShared{edge});
    for (int layer : facts_.order())
      if (!facts_.is_input(layer) && facts_.bounds_sources_together(layer))
        add(BoundWeights{layer});
    add(EndStep{});
  }

  const StepFacts& facts_;
  Program program_;
};

}  // namespace

Program compile_training(const StepFacts& facts) {
  return Compiler(facts).training();
}

Program compile_activations(const StepFacts& facts) {
  return Compiler(facts).activations();
}

Program compile_outputs(const StepFacts& facts, int layer) {
  return Compiler(facts).outputs(layer);
}

Program compile_search(const StepFacts& facts, int layer) {
  return Compiler(facts).search(layer);
}

Program compile_cost(const StepFacts& facts, int visited) {
  return Compiler(facts).cost(visited);
}

}  // namespace norn::step
