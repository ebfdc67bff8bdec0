// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/problem.h"

#include <random>

/// Random images and windows for networks whose gradients are compared.
namespace norn::test {

class WindowDraw {
 public:
  explicit WindowDraw(std::uint64_t seed) : random_(seed) {}
  Index upto(Index most) { return Index(1 + random_() % std::uint64_t(most)); }
  bool coin() { return random_() % 2 == 0; }

  LayerDescriptor image(int axes) {
    LayerDescriptor layer = input_layer("In", 1);
    layer.extent = {1, 1, 1, 1};
    for (int a = 0; a < axes; ++a) layer.extent[std::size_t(a)] = upto(axes < 3 ? 8 : 4);
    layer.extent[std::size_t(axes)] = upto(4);
    layer.dimensions = axes + 1;
    return layer;
  }
  LayerDescriptor windows(LayerDescriptor layer, int axes) {
    layer.kernel_dimensions = axes;
    for (int a = 0; a < axes; ++a) {
      layer.stride[std::size_t(a)] = coin() ? 1 : 1 + upto(3);
      const bool same = layer.stride[std::size_t(a)] == 1;
      layer.kernel[std::size_t(a)] = same ? 2 * upto(3) - 1 : upto(5);
    }
    return layer;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace norn::test
