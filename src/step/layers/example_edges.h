// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/window_phases.h"
#include "src/step/facts.h"

/// What ops by example and their counts have in common.
namespace norn::step {

// Stages of what ranks exchange.
inline constexpr const char* kSumStatistics = "sum statistics";
inline constexpr const char* kSumBiases = "sum gradients of biases";
inline constexpr const char* kTerms = "gather terms of gradients";
inline constexpr const char* kValues = "gather weights";

/// Weights of an edge into a layer by example, over all ranks.
inline Index weights_of(const StepFacts& facts, int edge) {
  const WeightShape shape = facts.weight_shape(facts.owner(edge));
  return shape.sources * shape.destinations;
}

inline bool sends_delta(const StepFacts& facts, int edge) {
  return facts.is_hidden(facts.edge(edge).source);
}

/// Whether phases of the source's delta go where they belong at once, and not as floats.
inline bool places_phases(const StepFacts& facts, int edge) {
  const int layer = facts.edge(edge).destination;
  return facts.delta_in_bf16(facts.edge(edge).source) && facts.gives_bf16_delta(layer) &&
         window_phases::can_place(facts.window(edge), facts.channels(layer));
}

}  // namespace norn::step
