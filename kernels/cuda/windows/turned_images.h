// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/window.h"
#include "norn/tensor/views.h"

/// Images whose places stand along rows, a channel in each: what products along places read.
namespace norn::cuda {

/// to(r*C + c, (y*W + x)*F + e) = images(r*E + e, (y*width + x)*C + c), of so many equal runs r of
/// E examples; where there is no such image or place, 0. W is window_pieces::turned_width(), F is
/// turned_examples() of a run.
///   images [runs*E x width*height * C],  to [runs*C x turned_length()] without gaps, C a multiple
///   of 4
/// `width` and `height` are `in` of the window, or `out` for its deltas.
void turn_places(const Stream& stream, const Window& window, Index width, Index height, Index runs,
                 MatrixView<const float> images, MatrixView<float> to);

}  // namespace norn::cuda
