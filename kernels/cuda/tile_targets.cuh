// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "norn/kernels/cost.h"

/// The stored targets of a tile of an output layer, found by a warp of their own while others
/// multiply.
namespace norn::cuda {

/// In shared memory, one for each consumer.
struct TileTargets {
  uint4 mask[kTile];       ///< of each row: which of its 128 units have a stored entry
  RowOffset entry[kTile];  ///< the first of them
  int begin[kTile + 1];    ///< numbers the entries of the tile, row by row
};

struct TargetBarriers {
  std::uint64_t full[kConsumers];
  std::uint64_t empty[kConsumers];

  __device__ void init() {
    for (int c = 0; c < kConsumers; ++c) {
      hopper::barrier_init(hopper::shared_address(full + c), 32);
      hopper::barrier_init(hopper::shared_address(empty + c), kConsumerThreads / 32);
    }
  }
};

/// Where one row's entries of a block's units are.
struct RowRange {
  RowOffset begin;
  RowOffset end;
};

/// The first of the ascending columns [begin, end) that is at least `unit`.
__device__ inline RowOffset lower_bound(const Column* column, RowOffset begin, RowOffset end,
                                        Index unit) {
  while (begin < end) {
    const RowOffset middle = begin + (end - begin) / 2;
    if (Index(column[middle]) < unit)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// Where a tile's targets are looked up.
struct TargetSource {
  const Column* column;
  const RowRange* range;  ///< [rows]
  Index rows;
  Index first_unit;
};

/// By one warp: fills in the targets of a tile, 4 rows a lane.
__device__ inline void find_targets(const TargetSource& source, TilePlace place, TileTargets& to) {
  constexpr int kRows = kTile / 32;
  const int lane = int(threadIdx.x % 32);
  const Index unit = source.first_unit + place.col;
  RowOffset entry[kRows];
  RowOffset end[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const Index row = place.row + kRows * lane + r;
    const RowRange all = row < source.rows ? source.range[row] : RowRange{0, 0};
    entry[r] = all.begin;
    end[r] = all.end;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) entry[r] = lower_bound(source.column, entry[r], end[r], unit);
  int count[kRows];
  int total = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    unsigned mask[4] = {};
    for (RowOffset i = entry[r]; i < end[r]; ++i) {
      const Index at = Index(source.column[i]) - unit;
      if (at >= kTile) break;
#pragma unroll
      for (int word = 0; word < 4; ++word)
        if (at / 32 == word) mask[word] |= 1u << (at % 32);
    }
    to.mask[kRows * lane + r] = {mask[0], mask[1], mask[2], mask[3]};
    to.entry[kRows * lane + r] = entry[r];
    count[r] = __popc(mask[0]) + __popc(mask[1]) + __popc(mask[2]) + __popc(mask[3]);
    total += count[r];
  }
  int before = total;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xFFFFFFFFu, before, step);
    if (lane >= step) before += other;
  }
  if (lane == 31) to.begin[kTile] = before;
  before -= total;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    to.begin[kRows * lane + r] = before;
    before += count[r];
  }
}

}  // namespace norn::cuda
