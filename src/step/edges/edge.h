// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/facts.h"

/// What a kind of edge from unit to unit brings to a step: a struct as those of this folder, listed
/// in edges.h. Weight matrices are no such kind: src/step/ops/blocks.h.
///
///     static constexpr EdgeKind kKind;
///     static constexpr double kForwardBytes, kBackwardBytes;  // of memory, a unit and an example
///     Edge(const StepFacts&, const UnitEdge&);                // declares its arrays
///     void for_each_tensor(visit);                            // lists them
///     void forward(State&, const UnitEdge&, Range units, x, z);       // z += what it makes of x
///     void backward(State&, const UnitEdge&, Range units, x, delta, lane);  // of the same units
///
/// x are the source's activations of the same units, or of all where the kind is `from_all`. An
/// edge of what does not follow from sizes has fill(StepFacts, UnitEdge), which writes its arrays.
/// One whose work is more than bytes has kBackwardStage and flops(StepFacts, edge), of an example.
///
/// forward() reads parameters alone; working arrays are backward()'s, which writes them first.
/// The layer's pre-activations of an example are the sum over its edges, of any kind, and its bias.
/// backward() adds the source's delta with send_by_unit(), then changes the edge's own parameters.
/// Arrays with a name in model files are vectors of the destination's units, and saved with them.
namespace norn::step {

/// What the state of a step is to edges.
class State;

struct UnitEdge {
  const Edge& edge;
  int position = 0;  ///< among the edges from unit to unit into its layer
};

/// Adds delta [B x units] of these units to that of the source, if it has one: any but an input.
void send_by_unit(State& state, const UnitEdge& edge, Range units, MatrixView<const float> delta);

}  // namespace norn::step
