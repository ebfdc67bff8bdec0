// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/base/float_halves.h"

#include <cstdint>

namespace norn {

/// A matrix of weights as a device holds it: floats, or their two halves, of which products read
/// the upper ones.
struct WeightView {
  MatrixView<float> floats;  ///< without memory where there are halves, but of the shape
  MatrixView<Bfloat16> high{};
  MatrixView<std::int16_t> low{};

  WeightView() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a matrix of floats holds weights
  WeightView(MatrixView<float> all) : floats(all) {}
  WeightView(MatrixView<Bfloat16> upper, MatrixView<std::int16_t> lower)
      : floats{nullptr, upper.rows, upper.cols, upper.stride}, high(upper), low(lower) {}

  bool is_split() const { return high.data != nullptr; }
  Index rows() const { return floats.rows; }
  Index cols() const { return floats.cols; }
  bool empty() const { return floats.empty(); }
  WeightView row_range(Index first, Index count) const {
    if (is_split()) return {high.row_range(first, count), low.row_range(first, count)};
    return floats.row_range(first, count);
  }
  WeightView columns(Index first, Index count) const {
    if (is_split()) return {high.columns(first, count), low.columns(first, count)};
    return floats.columns(first, count);
  }
};

}  // namespace norn
