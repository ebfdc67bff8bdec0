// SPDX-License-Identifier: Apache-2.0
// Sizes that follow from sources and windows.
#pragma once

#include "kernels/window.h"
#include "src/nn/descriptor.h"

#include <string>
#include <vector>

namespace norn {

/// Extent and padding of a window's output along one axis.
///   width <= kernel     1; padded on the left by half of what is missing, rounded up
///   stride 1            width; padded by kernel / 2 ("same"), so the kernel must be odd
///   else                floor((width - kernel) / stride) + 1; not padded
struct WindowAxis {
  Index extent = 1;
  Index padding = 0;
};
WindowAxis window_axis(Index width, Index kernel, Index stride);

/// A Convolutional layer's N is its number of channels, on the axis after the kernel's.
ShapeInference infer_convolution;
ShapeInference infer_pooling;

/// What a Convolutional or Pooling layer reads of a source, once its shape has been inferred. The
/// channels are the source's last axis; where the Kernel of Max or Average goes over that, too,
/// there is one. Where Function has no window, all units are channels of one place.
Window window_of(const LayerDescriptor& layer, const LayerDescriptor& source);

/// Whether a layer is computed place by place from those around it: Convolutional, Max, Average,
/// LRN.
bool has_window(const LayerDescriptor& layer);
/// Whether a unit says how alike two sources are: DotProduct, Cosine.
bool is_comparison(PoolingFunction function);

/// Of a Convolutional layer: its units at one place, K.
inline Index channels_of(const LayerDescriptor& layer) {
  return layer.extent[std::size_t(layer.dimensions - 1)];
}

/// The weights of an edge as a matrix, and how model files have it.
struct EdgeMatrix {
  Index inputs = 0;   ///< what an output is a sum over: source units; C * taps of a convolution
  Index outputs = 0;  ///< destination units; channels K of a convolution
  Fan fan;            ///< units that feed one, and that one feeds: C * taps and K * taps
  bool rows_are_outputs = false;  ///< [outputs x inputs] in files, else [inputs x outputs]
  Index size() const { return inputs * outputs; }
};
EdgeMatrix matrix_between(const LayerDescriptor& layer, const LayerDescriptor& source);

}  // namespace norn
