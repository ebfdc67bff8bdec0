// SPDX-License-Identifier: Apache-2.0
// Element-wise work in which dropout takes part: how threads share out a layer's units, so that
// each has the four of one Philox block.
#pragma once

#include "kernels/cuda/elements.cuh"
#include "norn/kernels/dropout_mask.h"

namespace norn::cuda {

/// The uniform numbers of n units.
template <int n>
struct UnitChances {
  float value[n];
};

/// Calls work(r, c, n, draw) for elements c, ..., c + n - 1 of row r, n being a constant type, 4 or
/// 1, so that every element is met once. draw() gives the elements' chances: what is loaded before
/// it is called is on its way while the numbers are drawn. Masks that drop nothing draw nothing.
/// kPacked: units and columns begin together, and fours may be accessed at once.
template <bool kPacked, typename Work>
__device__ __forceinline__ void for_units(const DropoutMask& mask, Index rows, Index cols,
                                          const Work& work) {
  constexpr std::integral_constant<int, 4> kAll{};
  constexpr std::integral_constant<int, 1> kOne{};
  const Index row_step = Index(gridDim.y) * blockDim.y;
  const Index block_step = Index(gridDim.x) * blockDim.x;
  const Index first_block = mask.first_unit >> 2;
  const Index end_block = (mask.first_unit + cols + 3) >> 2;
  for (Index r = Index(blockIdx.y) * blockDim.y + threadIdx.y; r < rows; r += row_step)
    for (Index block = first_block + Index(blockIdx.x) * blockDim.x + threadIdx.x;
         block < end_block; block += block_step) {
      const Index c = 4 * block - mask.first_unit;
      const auto draw = [&] {
        UnitChances<4> chances{};
        if (!mask.drops()) return chances;
        const Philox::Block drawn =
            mask.random.block(std::uint64_t(block), std::uint64_t(mask.first_row + r));
#pragma unroll
        for (int k = 0; k < 4; ++k) chances.value[k] = Philox::uniform(drawn.word[k]);
        return chances;
      };
      if (kPacked && c + 4 <= cols) {
        work(r, c, kAll, draw);
        continue;
      }
      // The first and the last block may be only partly in the matrix.
      const UnitChances<4> chances = draw();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (c + k >= 0 && c + k < cols)
          work(r, c + k, kOne, [&] { return UnitChances<1>{{chances.value[k]}}; });
    }
}

/// Threads for for_units().
inline Launch unit_launch(const Stream& stream, const DropoutMask& mask, Index rows, Index cols) {
  return element_launch(stream, rows, (mask.first_unit + cols + 3) / 4 - mask.first_unit / 4);
}

}  // namespace norn::cuda
