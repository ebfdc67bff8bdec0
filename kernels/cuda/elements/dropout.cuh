// SPDX-License-Identifier: Apache-2.0
// Element-wise work in which dropout takes part: how threads share out a layer's units, so that
// each has the four of one Philox block.
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/dropout_mask.h"

namespace norn::cuda {

/// The uniform numbers of n units.
template <int n>
struct UnitChances {
  float value[n];
};

/// The chances of the units of a Philox block, 0 where the mask drops nothing: nothing is drawn
/// then.
__device__ __forceinline__ UnitChances<4> draw_chances(const DropoutMask& mask, Index block,
                                                       Index r) {
  UnitChances<4> chances{};
  if (!mask.drops()) return chances;
  if (mask.places > 1) {  // whose neighbours stand in other blocks
#pragma unroll
    for (int k = 0; k < 4; ++k) chances.value[k] = mask.chance_of_place(r, 4 * block + k);
    return chances;
  }
  const Philox::Block drawn =
      mask.random.block(std::uint64_t(block), std::uint64_t(mask.first_row + r));
#pragma unroll
  for (int k = 0; k < 4; ++k) chances.value[k] = Philox::uniform(drawn.word[k]);
  return chances;
}

/// Calls work.finish(r, c, work.load<n>(r, c), chances) for elements c, ..., c + n - 1 of row r, n
/// being 4 or 1, so that every element is met once; kRows loads are on their way at a time.
/// kPacked: units and columns begin together, and fours may be accessed at once.
template <bool kPacked, int kRows, typename Work>
__device__ __forceinline__ void for_units(const DropoutMask& mask, Index rows, Index cols,
                                          Work& work) {
  const Index row_step = Index(gridDim.y) * blockDim.y;
  const Index block_step = Index(gridDim.x) * blockDim.x;
  const Index first_block = mask.first_unit >> 2;
  const Index end_block = (mask.first_unit + cols + 3) >> 2;
  for (Index first = Index(blockIdx.y) * blockDim.y + threadIdx.y; first < rows;
       first += kRows * row_step)
    for (Index block = first_block + Index(blockIdx.x) * blockDim.x + threadIdx.x;
         block < end_block; block += block_step) {
      const Index c = 4 * block - mask.first_unit;
      if (kPacked && c + 4 <= cols) {
        decltype(work.template load<4>(first, c)) loaded[kRows];
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          if (first + i * row_step < rows)
            loaded[i] = work.template load<4>(first + i * row_step, c);
#pragma unroll
        for (int i = 0; i < kRows; ++i)
          if (const Index r = first + i * row_step; r < rows)
            work.finish(r, c, loaded[i], draw_chances(mask, block, r));
        continue;
      }
      // The first and the last block may be only partly in the matrix.
      for (Index r = first; r < rows && r < first + kRows * row_step; r += row_step) {
        const UnitChances<4> chances = draw_chances(mask, block, r);
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (c + k >= 0 && c + k < cols)
            work.finish(r, c + k, work.template load<1>(r, c + k),
                        UnitChances<1>{{chances.value[k]}});
      }
    }
}

/// Threads for for_units().
template <int kRows>
Launch unit_launch(const Stream& stream, const DropoutMask& mask, Index rows, Index cols) {
  return element_launch(stream, (rows + kRows - 1) / kRows,
                        (mask.first_unit + cols + 3) / 4 - mask.first_unit / 4);
}

}  // namespace norn::cuda
