// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"
#include "src/step/program.h"

#include <deque>

/// What a Network consists of.
namespace norn {

struct Network::Parts {
  Parts(Graph graph, const std::vector<DatasetShape>& shapes, const Context& context, Index batch,
        Pass purpose, const BlockRule* blocks, std::vector<bool> by_example);

  // Each step in flight has a place in main memory to copy its outcome to.
  struct InFlight {
    StepPosition position;
    std::byte* outcome = nullptr;
    WorkQueue::Mark done = 0;
  };

  const Graph graph;
  const StepFacts facts;
  step::State state;
  const step::Program training;
  const step::Program to_activations;
  std::vector<LabelTable> unit_labels;  // by layer, or empty
  std::string chosen;                   // JSON, or empty
  Buffer<float> host_values;            // of outputs() and activations()
  std::vector<std::byte*> places;
  std::size_t next_place = 0;
  std::deque<InFlight> in_flight;
  std::unique_ptr<step::OpTimes> times;
  std::int64_t steps_begun = 0;

  /// Whether the step that begins now is measured op by op.
  bool measures_step();
  Compute& compute() { return state.context.compute; }
  /// Loads a batch and makes a pass over it that learns nothing.
  void pass(const step::Program& program, const BoundBatch& batch, const BlockVisitor* visit,
            bool with_targets = false);
  void require_planned(const BoundBatch& batch, const char* function) const;
};

/// Adds the costs of blocks. How many of them are not finite.
std::int64_t add_costs(std::span<const double> of_blocks, FixedSum& cost);

}  // namespace norn
