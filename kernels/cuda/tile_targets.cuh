// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tile_product.cuh"
#include "norn/kernels/cost.h"

/// The stored targets of the tiles of an output layer, and what else it takes to judge a tile. A
/// table says where each row's entries of each tile begin; two warps of a block look tiles up
/// while others multiply.
namespace norn::cuda {

constexpr int kTargetWarps = 2;  // each finds the targets of 64 rows
constexpr int kTargetRows = kTile / kTargetWarps;
constexpr int kTargetSlots = 2 * kConsumers;  // tiles that are looked up ahead

/// Where a tile's targets are looked up.
struct TargetSource {
  const Column* column;
  const RowOffset* row_begin;
  const int* offset;  ///< [tiles + 1 x stride] of a row's entries, those of a tile's units begin
  Index stride;       ///< at least `rows`, a multiple of 64
  Index rows;
  Index cols;
  Index first_unit;
  int tiles;
  VectorView<const float> bias;
  VectorView<const float> weight;  ///< of the rows, or empty
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

/// Fills in the table: a thread has one row of kTilesAThread tiles. `end_unit` ends the layer.
constexpr int kTilesAThread = 8;
__device__ inline void find_offsets(const TargetSource& source, Index end_unit, int* offset) {
  const Index row = Index(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= source.stride) return;
  const Index first = Index(blockIdx.y) * kTilesAThread;
  const Index last = min(first + kTilesAThread, Index(source.tiles) + 1);
  const RowOffset begin = row < source.rows ? source.row_begin[row] : 0;
  const RowOffset end = row < source.rows ? source.row_begin[row + 1] : 0;
  const auto column = [&](RowOffset i) { return i < end ? Index(source.column[i]) : Index(-1); };
  RowOffset entry =
      lower_bound(source.column, begin, end, min(source.first_unit + first * kTile, end_unit));
  Index next = column(entry);
  for (Index tile = first; tile < last; ++tile) {
    const Index unit = min(source.first_unit + tile * kTile, end_unit);
    if (next >= 0 && next < unit) {
      entry = lower_bound(source.column, entry + 1, min(entry + kTile, end), unit);
      next = column(entry);
    }
    offset[tile * source.stride + row] = int(entry - begin);
  }
}

/// In shared memory, one for each slot.
struct TileTargets {
  alignas(16) unsigned mask[kTile][4];  ///< of each row: which of its 128 units have a stored entry
  float bias[kTile];                    ///< a padding beyond the layer
  float weight[kTile];                  ///< 0 beyond the batch
  RowOffset entry[kTile];               ///< the first of a row's entries
  int row_count[kTile];
  short item[kTargetWarps][kTargetRows * 4];  ///< runs of up to 32 entries: row + kTile * run
  int count[kTargetWarps];  ///< stored entries of 64 rows; where there is none, no mask is set
  TilePlace place;
};

struct TargetBarriers {
  std::uint64_t full[kTargetSlots];
  std::uint64_t empty[kTargetSlots];

  /// `warps` of a consumer.
  __device__ void init(std::uint32_t warps) {
    for (int s = 0; s < kTargetSlots; ++s) {
      hopper::barrier_init(hopper::shared_address(full + s), 32 * kTargetWarps);
      hopper::barrier_init(hopper::shared_address(empty + s), warps);
    }
  }
};

/// By warp `half` of kTargetWarps: fills in the targets of 64 rows of a tile, and 64 biases.
class TargetFinder {
 public:
  __device__ TargetFinder(const TargetSource& source, int half, TileTargets& to)
      : source_(source), half_(half), lane_(int(threadIdx.x % 32)), to_(to) {}

  /// `padding`: the bias beyond the layer.
  __device__ void find(TilePlace place, float padding) const {
    if (half_ == 0 && lane_ == 0) to_.place = place;
#pragma unroll
    for (int at = kTargetRows * half_ + lane_; at < kTargetRows * (half_ + 1); at += 32) {
      const Index row = place.row + at;
      const Index col = place.col + at;
      to_.bias[at] = col < source_.cols ? source_.bias[col] : padding;
      if (row < source_.rows)
        to_.weight[at] = source_.weight.empty() ? 1.0f : source_.weight[row];
      else
        to_.weight[at] = 0.0f;
    }
    find_entries(place);
  }

 private:
  static constexpr unsigned kAll = 0xFFFFFFFFu;
  static constexpr int kInFlight = 8;

  __device__ void find_entries(TilePlace place) const {
    const Index first = place.row + kTargetRows * half_ + 2 * lane_;
    const int tile = place.col / kTile;
    int2 begin = {0, 0};
    int2 end = {0, 0};
    if (first < source_.rows && tile < source_.tiles) {
      const int* at = source_.offset + tile * source_.stride + first;
      begin = *reinterpret_cast<const int2*>(at);
      end = *reinterpret_cast<const int2*>(at + source_.stride);
    }
    const int count[2] = {end.x - begin.x, end.y - begin.y};
    const int total = __reduce_add_sync(kAll, count[0] + count[1]);
    __syncwarp();
    if (lane_ == 0) to_.count[half_] = total;
    if (total == 0) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = kTargetRows * half_ + 2 * lane_ + r;
      *reinterpret_cast<uint4*>(to_.mask[row]) = {0, 0, 0, 0};
      to_.row_count[row] = count[r];
      if (count[r] > 0)
        to_.entry[row] = source_.row_begin[first + r] + (r == 0 ? begin.x : begin.y);
    }
    const int items = list_items(count);
    __syncwarp();
    const Index unit = source_.first_unit + place.col;
    for (int i = 0; i < items; i += kInFlight) read_items(i, items, unit);
  }

  /// Rows that have entries, in runs that the warp reads at once. Returns how many.
  __device__ int list_items(const int (&count)[2]) const {
    int items = 0;
    for (int run = 0; run < kTile / 32; ++run) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const bool has = count[r] > 32 * run;
        const unsigned all = __ballot_sync(kAll, has);
        if (has)
          to_.item[half_][items + __popc(all & ((1u << lane_) - 1))] =
              short(kTargetRows * half_ + 2 * lane_ + r + kTile * run);
        items += __popc(all);
      }
    }
    return items;
  }
  __device__ void read_items(int first, int items, Index unit) const {
    int unit_of[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      unit_of[i] = -1;
      if (first + i >= items) continue;
      const int item = to_.item[half_][first + i];
      const int row = item % kTile;
      const int at = item / kTile * 32 + lane_;
      if (at < to_.row_count[row])
        unit_of[i] = int(Index(source_.column[to_.entry[row] + at]) - unit);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i >= items) break;
      unsigned mine = 0;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const unsigned bit = unit_of[i] >> 5 == word ? 1u << (unit_of[i] & 31) : 0u;
        const unsigned bits = __reduce_or_sync(kAll, bit);
        if (lane_ == word) mine = bits;
      }
      if (lane_ < 4) to_.mask[to_.item[half_][first + i] % kTile][lane_] |= mine;
    }
  }

  const TargetSource& source_;
  int half_;
  int lane_;
  TileTargets& to_;
};

}  // namespace norn::cuda
