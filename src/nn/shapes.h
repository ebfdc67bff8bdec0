// SPDX-License-Identifier: Apache-2.0
// Sizes that follow from sources and windows.
#pragma once

#include "src/nn/descriptor.h"

#include <string>
#include <vector>

namespace norn {

/// Extent and padding of a window's output along one axis.
///   width <= kernel     1; padded on the left by half of what is missing, rounded up
///   stride 1            width; padded by kernel / 2 ("same")
///   else                floor((width - kernel) / stride) + 1; not padded
struct WindowAxis {
  Index extent = 1;
  Index padding = 0;
};
WindowAxis window_axis(Index width, Index kernel, Index stride);

/// A Convolutional layer's N is its number of channels, on the axis after the kernel's.
ShapeInference infer_convolution;
ShapeInference infer_pooling;

}  // namespace norn
