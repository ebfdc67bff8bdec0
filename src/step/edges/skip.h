// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/edges/edge.h"

namespace norn::step {

/// The source's activations as they are.
struct SkipEdge {
  static constexpr EdgeKind kKind = EdgeKind::skip;
  static constexpr double kForwardBytes = 3.0 * sizeof(float);
  static constexpr double kBackwardBytes = sizeof(float) + 2.0 * sizeof(std::int64_t);
  SkipEdge(const StepFacts&, const UnitEdge&) {}

  template <typename Visit>
  void for_each_tensor(const Visit&) {}
  void forward(State& state, const UnitEdge& edge, Range units, MatrixView<const float> x,
               MatrixView<float> z);
  void backward(State& state, const UnitEdge& edge, Range units, MatrixView<const float> x,
                MatrixView<const float> delta, int lane);
};

}  // namespace norn::step
