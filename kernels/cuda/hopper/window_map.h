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

/// The same in boxes of half the channels, with the 64-byte swizzle.
CUtensorMap map_half_windows(const Window& window, const Bfloat16* x, Index examples, int rows);
CUtensorMap map_half_windows(const Window& window, const float* x, Index examples, int rows);

/// The images of windows whose window_pieces::block_width() is not 0, in boxes of `channels` and
/// blocks of so many windows: 128 bytes of channels with the 128-byte swizzle, or 64 with the
/// 64-byte swizzle.
CUtensorMap map_blocks(const Window& window, const Bfloat16* x, Index examples, int rows,
                       Index channels);
CUtensorMap map_blocks(const Window& window, const float* x, Index examples, int rows,
                       Index channels);

/// Boxes of 64 places of images x `cols` of their channels: 64 with the 128-byte swizzle, or 32
/// with the 64-byte swizzle. Places follow each other along x, then y, then the next image; what
/// lies behind the last image is read as zero and not written. Their distances are in elements.
struct MappedPlaces {
  Index channels, width, height, examples;
  Index x, y, example;  ///< from one to the next, each a multiple of the one before
};
CUtensorMap map_places(const Bfloat16* first, const MappedPlaces& places, int cols);

}  // namespace norn::cuda
