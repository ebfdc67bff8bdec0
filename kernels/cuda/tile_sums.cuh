// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/tile_product.cuh"

#include <cstdint>

/// Sums over the rows of a tile of bfloat16 that lies in shared memory.
namespace norn::cuda {

/// The byte of an element within 64 rows of a tile, two pieces of 64 columns as the copy engine
/// wants them.
__device__ inline int tile_place(int row, int col) {
  return col / 64 * kPieceBytes + row * 128 + (col % 64 / 8 ^ row % 8) * 16 + col % 8 * 2;
}

/// The sums of a tile's columns, by the 4 warps of a warpgroup: each has 32 columns. Tensor cores
/// add: the columns are the rows of a matrix that is multiplied with ones.
class TileColumnSums {
 public:
  /// Adds 64 rows, by a whole warp.
  __device__ void add(std::uint32_t tile) {
    const int lane = int(threadIdx.x % 32);
    const int row = lane / 16 * 8 + lane % 8;
    const int col = int(threadIdx.x % kConsumerThreads / 32) * 32 + lane / 8 % 2 * 8;
#pragma unroll
    for (int k = 0; k < 64; k += 16) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t columns[4];
        load_transposed(tile + std::uint32_t(tile_place(k + row, col + 16 * half)), columns);
        add_rows(sum_[half], columns);
      }
    }
  }
  /// One of the warp's sums for each lane, and which of the tile's columns it is of.
  __device__ float sum() const {
    const int part = int(threadIdx.x % 4);
    const float low = part % 2 == 0 ? sum_[0][0] : sum_[0][2];
    const float high = part % 2 == 0 ? sum_[1][0] : sum_[1][2];
    return part < 2 ? low : high;
  }
  __device__ static int column() {
    return int(threadIdx.x % kConsumerThreads / 32 * 32 + threadIdx.x % 4 * 8 +
               threadIdx.x % 32 / 4);
  }

 private:
  /// Four 8x8 matrices, transposed: lane l gives the address of row l % 8 of matrix l / 8.
  static __device__ void load_transposed(std::uint32_t row, std::uint32_t (&value)[4]) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value[0]), "=r"(value[1]), "=r"(value[2]), "=r"(value[3])
                 : "r"(row)
                 : "memory");
  }
  /// sum [16 x 8] += a [16 x 16] * ones: every column of the result is the same.
  static __device__ void add_rows(float (&sum)[4], const std::uint32_t (&a)[4]) {
    constexpr std::uint32_t kOnes = 0x3F803F80;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %8}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(kOnes));
  }

  float sum_[2][4] = {};
};

}  // namespace norn::cuda
