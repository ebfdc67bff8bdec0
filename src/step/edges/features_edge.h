// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/edges/edge.h"

#include <vector>

namespace norn::step {

/// What a layer says of features, brought to the units that have them: by the fixed weights of the
/// destination's FeatureTable, those of the own units.
struct FeaturesEdge {
  static constexpr EdgeKind kKind = EdgeKind::features;
  static constexpr double kForwardBytes = 3.0 * sizeof(float);
  static constexpr double kBackwardBytes = sizeof(float);
  static constexpr const char* kBackwardStage = "features delta";
  /// Of an example, either way.
  static double flops(const StepFacts& facts, int edge);
  FeaturesEdge(const StepFacts& facts, const UnitEdge& edge);

  HeldBuffer<RowOffset> row_begin;  ///< [own units + 1]
  HeldBuffer<Column> column;        ///< of features
  HeldBuffer<float> value;          ///< empty: 1
  // In training, block by block, for the way back.
  HeldBuffer<RowOffset> feature_begin;  ///< [own blocks x (features + 1)]
  HeldBuffer<Column> unit;              ///< within its block
  HeldBuffer<float> unit_value;

  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    all(row_begin, column, value, feature_begin, unit, unit_value);
  }
  /// Writes the table to the arrays, once they have memory.
  void fill(const StepFacts& facts, const UnitEdge& edge);
  void forward(State& state, const UnitEdge& edge, Range units, MatrixView<const float> x,
               MatrixView<float> z);
  /// Of one block.
  void backward(State& state, const UnitEdge& edge, Range units, MatrixView<const float> x,
                MatrixView<const float> delta, int lane);

 private:
  RowOffset entries_ = 0;
};

}  // namespace norn::step
