// SPDX-License-Identifier: Apache-2.0
#include "src/step/edges/skip.h"

#include "src/step/state.h"

namespace norn::step {

void SkipEdge::forward(State& state, const UnitEdge&, Range, MatrixView<const float> x,
                       MatrixView<float> z) {
  state.kernels().pointwise->add(x, z);
}

void SkipEdge::backward(State& state, const UnitEdge& edge, Range units, MatrixView<const float>,
                        MatrixView<const float> delta, int) {
  send_by_unit(state, edge, units, delta);
}

}  // namespace norn::step
