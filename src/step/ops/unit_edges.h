// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// Edges from unit to unit (src/step/edges), as part of the ops of the layer that they lead to.
namespace norn::step {

/// z += what these edges bring for units of this rank.   z [B x units]
void add_by_unit(State& state, int layer, Range units, MatrixView<float> z);
/// What the delta of these units does to the edges and their sources.   delta [B x units]
void backward_by_unit(State& state, int layer, Range units, MatrixView<const float> delta,
                      int lane);
/// The same for all units of the examples `rows`, of a layer by example.   z, delta [rows x units]
void add_rows_by_unit(State& state, int layer, Range rows, MatrixView<float> z);
void backward_rows_by_unit(State& state, int layer, Range rows, MatrixView<const float> delta);
void list_backward_by_unit(int layer, TensorUses& uses);

}  // namespace norn::step
