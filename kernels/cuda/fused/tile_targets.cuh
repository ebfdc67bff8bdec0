// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"
#include "kernels/cuda/fused/fused.h"
#include "kernels/cuda/hopper/hopper.cuh"
#include "kernels/cuda/hopper/tile_product.cuh"

/// The stored targets of the tiles of an output layer, and what else the loss of a tile takes.
/// ColumnRuns say where each row's entries of each tile begin; three warps of a block look halves
/// of tiles up, in turn, while others multiply.
namespace norn::cuda {

constexpr int kTargetHalves = 2;  // a warp finds the targets of 64 rows at a time
constexpr int kTargetRows = kTile / kTargetHalves;
constexpr int kFinderWarps = 3;
constexpr int kTargetSlots = 2 * kConsumers;  // tiles that are prefetched

/// Where a tile's targets are looked up.
struct TargetSource {
  const Column* column;
  const RowOffset* row_begin;
  const int* offset;  ///< ColumnRuns of the block; null where biases alone are wanted
  Index stride;       ///< at least `rows`, a multiple of 64
  Index rows;
  Index cols;
  Index first_unit;
  int tiles;
  VectorView<const float> bias;
  VectorView<const float> weight;  ///< of the rows, or empty
  const SoftMaxTileRow* row;       ///< of a SoftMax layer, or null
};

/// In shared memory, one for each slot.
struct TileTargets {
  alignas(16) unsigned mask[kTile][4];  ///< of each row: which of its 128 units have a stored entry
  float bias[kTile];                    ///< a padding beyond the layer
  float weight[kTile];                  ///< 0 beyond the batch; of a SoftMax layer its factor
  float maximum[kTile];                 ///< of a SoftMax layer, infinite beyond the batch
  float unit[kTile];
  float log_total[kTile];
  RowOffset entry[kTile];  ///< the first of a row's entries
  int row_count[kTile];
  short item[kTargetHalves][kTargetRows * 4];  ///< runs of up to 32 entries: row + kTile * run
  int count[kTargetHalves];  ///< stored entries of 64 rows; where there is none, no mask is set
  TilePlace place;
};

struct TargetBarriers {
  std::uint64_t full[kTargetSlots];
  std::uint64_t empty[kTargetSlots];

  /// `threads` of a consumer. Each of them arrives for itself: a warp's first lane alone would do,
  /// but then compute-sanitizer does not see that the others have read.
  __device__ void init(std::uint32_t threads) {
    for (int s = 0; s < kTargetSlots; ++s) {
      hopper::barrier_init(hopper::shared_address(full + s), 32 * kTargetHalves);
      hopper::barrier_init(hopper::shared_address(empty + s), threads);
    }
  }
};

/// By one warp: fills in the targets of 64 rows of a tile, its `half`, and 64 biases.
class TargetFinder {
 public:
  __device__ TargetFinder(const TargetSource& source, int half, TileTargets& to)
      : source_(source), half_(half), lane_(int(threadIdx.x % 32)), to_(to) {}

  /// `padding`: the bias beyond the layer. All that is read is under way before any of it is used.
  __device__ void find(TilePlace place, float padding) const {
    if (half_ == 0 && lane_ == 0) to_.place = place;
    const int at = kTargetRows * half_ + 2 * lane_;  // the lane's rows, and its columns
    const float2 bias = bias_from(place.col + at, padding);
    if (source_.offset == nullptr) {
      *reinterpret_cast<float2*>(to_.bias + at) = bias;
      return;
    }
    const Index first = place.row + at;
    const int tile = place.col / kTile;
    const bool has = first < source_.rows && tile < source_.tiles;
    const int* offset = source_.offset + (has ? tile * source_.stride + first : 0);
    const int2 begin = *reinterpret_cast<const int2*>(offset);
    const int2 end = *reinterpret_cast<const int2*>(offset + source_.stride);
    const RowOffset row1 = source_.row_begin[min(first, source_.rows)];
    const RowOffset row2 = source_.row_begin[min(first + 1, source_.rows)];
    float2 weight = {1.0f, 1.0f};
    SoftMaxTileRow of_row[2];
    if (source_.row != nullptr) {
      of_row[0] = softmax_row(first);
      of_row[1] = softmax_row(first + 1);
    } else if (!source_.weight.empty())
      weight = {source_.weight[min(first, source_.rows - 1)],
                source_.weight[min(first + 1, source_.rows - 1)]};
    *reinterpret_cast<float2*>(to_.bias + at) = bias;
    if (source_.row != nullptr)
      keep_rows(at, of_row);
    else
      *reinterpret_cast<float2*>(to_.weight + at) = {first < source_.rows ? weight.x : 0.0f,
                                                     first + 1 < source_.rows ? weight.y : 0.0f};
    const int count[2] = {has ? end.x - begin.x : 0, has ? end.y - begin.y : 0};
    const int total = __reduce_add_sync(kAll, count[0] + count[1]);
    if (lane_ == 0) to_.count[half_] = total;
    if (total == 0) return;
    *reinterpret_cast<uint4*>(to_.mask[at]) = {0, 0, 0, 0};
    *reinterpret_cast<uint4*>(to_.mask[at + 1]) = {0, 0, 0, 0};
    *reinterpret_cast<int2*>(to_.row_count + at) = {count[0], count[1]};
    to_.entry[at] = row1 + begin.x;
    to_.entry[at + 1] = row2 + begin.y;
    const int longest = __reduce_max_sync(kAll, max(count[0], count[1]));
    if (longest <= kFew) {
      find_few(at, place, count, {row1 + begin.x, row2 + begin.y}, longest);
      return;
    }
    const int items = list_items(count);
    __syncwarp();
    const Column unit = Column(source_.first_unit + place.col);
    for (int i = 0; i < items; i += kInFlight) read_items(i, items, unit);
  }

 private:
  static constexpr unsigned kAll = 0xFFFFFFFFu;
  static constexpr int kInFlight = 8;
  static constexpr int kFew = 4;  // stored entries of a row

  /// Where no row has more than a few, each lane reads those of its own two rows.
  __device__ void find_few(int at, TilePlace place, const int (&count)[2],
                           const RowOffset (&entry)[2], int longest) const {
    const Column unit = Column(source_.first_unit + place.col);
    for (int first = 0; first < longest; first += 2) {
      Column column[2][2];  // of a row two at a time
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if (first + i < count[r]) column[r][i] = source_.column[entry[r] + first + i];
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (first + i >= count[r]) continue;
          const unsigned number = column[r][i] - unit;
          to_.mask[at + r][number / 32] |= 1u << (number % 32);
        }
    }
  }

  __device__ float2 bias_from(Index col, float padding) const {
    const float bias1 = source_.bias[min(col, source_.cols - 1)];
    const float bias2 = source_.bias[min(col + 1, source_.cols - 1)];
    return {col < source_.cols ? bias1 : padding, col + 1 < source_.cols ? bias2 : padding};
  }
  __device__ SoftMaxTileRow softmax_row(Index row) const {
    if (row >= source_.rows) return {HUGE_VALF, 0.0f, 0.0f, 0.0f};
    return source_.row[row];
  }
  __device__ void keep_rows(int at, const SoftMaxTileRow (&row)[2]) const {
    *reinterpret_cast<float2*>(to_.maximum + at) = {row[0].maximum, row[1].maximum};
    *reinterpret_cast<float2*>(to_.weight + at) = {row[0].factor, row[1].factor};
    *reinterpret_cast<float2*>(to_.unit + at) = {row[0].unit, row[1].unit};
    *reinterpret_cast<float2*>(to_.log_total + at) = {row[0].log_total, row[1].log_total};
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
  /// Without branches, so that the reads do not wait for each other.
  __device__ void read_items(int first, int items, Column unit) const {
    Column column[kInFlight];
    bool has[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int item = to_.item[half_][min(first + i, items - 1)];
      const int at = item / kTile * 32 + lane_;
      const int last = to_.row_count[item % kTile] - 1;
      has[i] = at <= last;
      column[i] = source_.column[to_.entry[item % kTile] + min(at, last)];
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (first + i >= items) break;
      const unsigned number = has[i] ? column[i] - unit : unsigned(kTile);
      unsigned mine = 0;
#pragma unroll
      for (unsigned word = 0; word < 4; ++word) {
        const unsigned bit = number / 32 == word ? 1u << (number % 32) : 0u;
        const unsigned bits = __reduce_or_sync(kAll, bit);
        if (lane_ == int(word)) mine = bits;
      }
      if (lane_ < 4) to_.mask[to_.item[half_][first + i] % kTile][lane_] |= mine;
    }
  }

  const TargetSource& source_;
  int half_;
  int lane_;
  TileTargets& to_;
};

/// The number-th tile's slot among what is prefetched, and its barriers' parity.
struct TargetSlot {
  __device__ explicit TargetSlot(std::int64_t number)
      : slot(int(number % kTargetSlots)), parity(std::uint32_t(number / kTargetSlots) & 1) {}
  int slot;
  std::uint32_t parity;
};

/// By one of kFinderWarps warps: the targets of the halves of tiles whose turn is its own.
/// `padding` is the bias beyond the layer.
template <class Pipeline>
__device__ void find_all_targets(const TargetSource& source, const Pipeline& pipeline, int warp,
                                 std::int64_t tiles, float padding,
                                 TileTargets (&targets)[kTargetSlots], TargetBarriers& barriers) {
  for (std::int64_t turn = warp;; turn += kFinderWarps) {
    const std::int64_t number = turn / kTargetHalves;
    const std::int64_t tile = pipeline.first() + number * pipeline.stride();
    if (tile >= tiles) return;
    const TargetSlot at(number);
    const TilePlace place = pipeline.place(tile);
    hopper::barrier_wait(hopper::shared_address(barriers.empty + at.slot), at.parity ^ 1);
    TargetFinder(source, int(turn % kTargetHalves), targets[at.slot]).find(place, padding);
    hopper::barrier_arrive(hopper::shared_address(barriers.full + at.slot));
  }
}

}  // namespace norn::cuda
