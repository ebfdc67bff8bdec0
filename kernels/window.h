// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

#include <array>

/// Where the windows of a convolution or a pooling stand in what they read.
namespace norn {

/// How the units of an example are stored.
enum class UnitOrder {
  file,          ///< x fastest, the channel slowest: model files, data sets, layers by unit
  channels_last  ///< the channel fastest, then x
};

/// Window (x, y, z) of an example reads units stride * (x, y, z) - padding and those up to kernel
/// behind them; those outside of `in` do not exist. Axes that are not used have 1, and padding 0.
struct Window {
  std::array<Index, 3> in = {1, 1, 1};   ///< x, y, z: places of an example's source
  std::array<Index, 3> out = {1, 1, 1};  ///< windows along each axis
  std::array<Index, 3> kernel = {1, 1, 1};
  std::array<Index, 3> stride = {1, 1, 1};
  std::array<Index, 3> padding = {0, 0, 0};  ///< in front of the first unit
  Index channels = 1;                        ///< of the source
  UnitOrder order = UnitOrder::file;         ///< of the source's units

  Index places() const { return in[0] * in[1] * in[2]; }
  Index out_places() const { return out[0] * out[1] * out[2]; }
  Index taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

}  // namespace norn
