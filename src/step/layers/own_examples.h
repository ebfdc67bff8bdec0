// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/state.h"

#include <vector>

/// What ops by example read and write: rows of the examples that a rank has.
namespace norn::step {

/// The own examples of a batch and their runs, as rows of what this rank has. Runs without an
/// example are left out.
struct OwnRows {
  Range examples;
  std::vector<Range> runs;
  Index places = 1;
  Index count() const { return examples.count(); }
  Index rows() const { return examples.count() * places; }
};
OwnRows own_rows(const StepFacts& facts, int layer, Index examples);

/// What a source gives for the own examples, [own x units]: as it stands on this rank.
DenseOperand rows_of(State& state, int source, Range own);

/// Where the part of a source's delta that comes through an edge is made, [own x units] in the
/// order of rows_of(); send() then takes it to the source.
MatrixView<float> place_to_send(State& state, int edge, Range own);
void send(State& state, int edge, Range own);
/// That of an edge from unit to unit: delta [own x units], d cost / d pre-activation.
void send_own_rows(State& state, int edge, MatrixView<const float> delta);

}  // namespace norn::step
