// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/hopper/tile_product.cuh"

#include <cstdint>

/// Sums over the rows of a tile of bfloat16 that lies in shared memory.
namespace norn::cuda {

constexpr int kTileBytes = kTile * kTile * 2;

/// The byte of an element of a tile: halves of 64 rows, each in two pieces of 64 columns as the
/// copy engine wants them.
__device__ inline int tile_place(unsigned row, unsigned col) {
  return int((row / 64 * 2 + col / 64) * kPieceBytes + row % 64 * 128 +
             (col % 64 / 8 ^ row % 8) * 16 + col % 8 * 2);
}

/// The sums of the columns of a piece of 64 over 16 rows of each half, from `first` on, by one
/// warp. Without tensor cores: with mma.sync the kernel took 15 % longer. `sum` [64] becomes them.
__device__ inline void sum_tile_columns(const unsigned char* tile, int first, int piece,
                                        float* sum) {
  const int lane = int(threadIdx.x % 32);
  const int octet = lane % 8;
  const unsigned char* from = tile + tile_place(first + lane / 8, 64 * piece + 8 * octet);
  const unsigned char* odd = tile + tile_place(first + lane / 8 + 4, 64 * piece + 8 * octet);
  float total[8];  // of 8 columns over every fourth row
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint4 eight = *reinterpret_cast<const uint4*>((i % 2 == 0 ? from : odd) +
                                                        i / 4 * 2 * kPieceBytes + i % 4 / 2 * 1024);
    const unsigned word[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float two[2] = {__uint_as_float(word[c] << 16), __uint_as_float(word[c] & 0xFFFF0000u)};
      total[2 * c] = i == 0 ? two[0] : total[2 * c] + two[0];
      total[2 * c + 1] = i == 0 ? two[1] : total[2 * c + 1] + two[1];
    }
  }
  // Lanes that differ in bit 4 share eight columns, those that differ in bit 3 four of them.
  float mine[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float given = __shfl_xor_sync(0xFFFFFFFFu, lane & 16 ? total[c] : total[4 + c], 16);
    mine[c] = (lane & 16 ? total[4 + c] : total[c]) + given;
  }
  float2 two;
  float* out = &two.x;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const float given = __shfl_xor_sync(0xFFFFFFFFu, lane & 8 ? mine[c] : mine[2 + c], 8);
    out[c] = (lane & 8 ? mine[2 + c] : mine[c]) + given;
  }
  *reinterpret_cast<float2*>(sum + octet * 8 + (lane & 16) / 4 + (lane & 8) / 4) = two;
}

}  // namespace norn::cuda
