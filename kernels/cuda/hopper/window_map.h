// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/window.h"
#include "src/base/bfloat16.h"

#include <cuda.h>

/// Descriptions of images for the bulk tensor copy engine, which then copies what windows read.
namespace norn::cuda {

/// Boxes of `rows` consecutive windows x 64 channels, of floats 32, with the 128-byte swizzle: for
/// each window, the channels at one place of it. What lies outside of the images is read as zero.
/// Of windows that window_pieces::can_read().
///   x [E x places*C] without gaps
CUtensorMap map_windows(const Window& window, const Bfloat16* x, Index examples, int rows);
/// Floats are rounded to tf32 on the way.
CUtensorMap map_windows(const Window& window, const float* x, Index examples, int rows);

}  // namespace norn::cuda
