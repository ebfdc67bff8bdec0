// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/hopper/tile_product.cuh"

#include <cstdint>

/// Sums over the rows of a tile of bfloat16 that lies in shared memory.
namespace norn::cuda {

constexpr int kTileBytes = kTile * kTile * 2;

/// The byte of an element of a tile: halves of 64 rows, each in two pieces of 64 columns as the
/// copy engine wants them.
__device__ inline int tile_place(int row, int col) {
  return (row / 64 * 2 + col / 64) * kPieceBytes + row % 64 * 128 + (col % 64 / 8 ^ row % 8) * 16 +
         col % 8 * 2;
}

/// The sums of the columns of 16 rows of a tile from `first` on, and with two halves of those 64
/// rows on, by one warp. Without tensor cores: with mma.sync the kernel took 15 % longer.
/// `sum` [128] becomes them.
template <int kHalves>
__device__ inline void sum_tile_columns(const unsigned char* tile, int first, float* sum) {
  const int lane = int(threadIdx.x % 32);
  const int octet = lane % 8;
  float total[2][8] = {};  // of 8 columns in each piece, over every fourth row
#pragma unroll
  for (int i = 0; i < 4 * kHalves; ++i) {
    const int row = i / 4 * 64 + first + i % 4 * 4 + lane / 8;
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      const uint4 eight =
          *reinterpret_cast<const uint4*>(tile + tile_place(row, 64 * piece + 8 * octet));
      const unsigned word[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        total[piece][2 * c] += __uint_as_float(word[c] << 16);
        total[piece][2 * c + 1] += __uint_as_float(word[c] & 0xFFFF0000u);
      }
    }
  }
  // Lanes that differ in bit 4 share the pieces, those that differ in bit 3 share four columns.
  float mine[8];
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const float given = __shfl_xor_sync(0xFFFFFFFFu, lane & 16 ? total[0][c] : total[1][c], 16);
    mine[c] = (lane & 16 ? total[1][c] : total[0][c]) + given;
  }
  float4 four;
  float* out = &four.x;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float given = __shfl_xor_sync(0xFFFFFFFFu, lane & 8 ? mine[c] : mine[4 + c], 8);
    out[c] = (lane & 8 ? mine[4 + c] : mine[c]) + given;
  }
  *reinterpret_cast<float4*>(sum + lane / 16 * 64 + octet * 8 + (lane & 8) / 2) = four;
}

}  // namespace norn::cuda
