// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/update/weight_access.cuh"

/// Weights and their state on the way to the warps that update them: a warp lets the copy engine
/// bring the rows of a consumer's tiles to a ring in shared memory well before their turn.
namespace norn::cuda {

constexpr int kBatchRows = 8;  ///< rows of a tile in one place of the ring

/// The first row of a batch in its tile. Four batches make a part of the product: 8 rows of each of
/// the four warps that hold it.
__device__ inline int batch_row(int batch) {
  return batch / 8 * 64 + batch % 4 * 16 + batch / 4 % 2 * 8;
}

/// Maps of the weights' halves and of as many arrays of state as the rule has, in boxes of a batch.
template <int kSlots>
struct WeightMaps {
  CUtensorMap high;
  CUtensorMap low;
  CUtensorMap slot[kSlots > 0 ? kSlots : 1];
};

template <int kTileRows, int kSlots, int kRingBytes>
class WeightRing {
 public:
  static constexpr int kBatches = kTileRows / kBatchRows;  ///< of a tile
  static constexpr int kArrays = 1 + kSlots;               ///< of weights two, of half the size
  static constexpr int kBoxBytes = kBatchRows * kTile * int(sizeof(float));
  static constexpr int kDepth = kRingBytes / (kArrays * kBoxBytes);
  static constexpr int kBytes = kDepth * kArrays * kBoxBytes;
  struct Barriers {
    std::uint64_t full[kDepth];
    std::uint64_t empty[kDepth];
  };

  __device__ WeightRing(Barriers& barriers, const unsigned char* ring)
      : full_(hopper::shared_address(barriers.full)),
        empty_(hopper::shared_address(barriers.empty)),
        ring_(ring) {}

  /// By one thread, before barrier_init_done().
  __device__ void init() const {
    for (int i = 0; i < kDepth; ++i) {
      hopper::barrier_init(full_ + 8 * i, 1);
      hopper::barrier_init(empty_ + 8 * i, kConsumerThreads / 32);
    }
  }

  /// By one warp: copies one tile's weights.
  __device__ void produce(const WeightMaps<kSlots>& weights, TilePlace at) {
    const std::uint64_t policy = hopper::once_policy();
    for (int batch = 0; batch < kBatches; ++batch) {
      hopper::barrier_wait(empty_ + 8 * slot_, parity_ ^ 1);  // every slot is empty at first
      if (hopper::elected()) {
        const std::uint32_t full = full_ + 8 * slot_;
        const std::uint32_t to = hopper::shared_address(ring_) + slot_ * kArrays * kBoxBytes;
        const auto row = at.row + batch_row(batch);
        hopper::barrier_arrive_expecting(full, kArrays * kBoxBytes);
        hopper::load_box_once(weights.high, to, full, at.col, row, policy);
        hopper::load_box_once(weights.low, to + kBoxBytes / 2, full, at.col, row, policy);
#pragma unroll
        for (int s = 0; s < kSlots; ++s)
          hopper::load_box_once(weights.slot[s], to + (1 + s) * kBoxBytes, full, at.col, row,
                                policy);
      }
      advance();
    }
  }

  /// Until the next batch is there.
  __device__ void wait() const {
    hopper::barrier_wait(full_ + 8 * slot_, parity_);
  }
  /// Four columns a lane of a row of the batch: weights, joined, and one of the arrays of state.
  __device__ float4 read_weights(int row) const {
    const unsigned char* box = ring_ + slot_ * kArrays * kBoxBytes;
    const uint2 high = four<uint2>(box, row), low = four<uint2>(box + kBoxBytes / 2, row);
    const float2 first = join_pair(high.x, low.x), second = join_pair(high.y, low.y);
    return {first.x, first.y, second.x, second.y};
  }
  __device__ float4 read_state(int slot, int row) const {
    return four<float4>(ring_ + (slot_ * kArrays + 1 + slot) * kBoxBytes, row);
  }
  /// By each warp that has read its part of the batch.
  __device__ void release() {
    hopper::fence_async();  // or the next copy may overtake reads that are still under way
    __syncwarp();
    if (threadIdx.x % 32 == 0) hopper::barrier_arrive(empty_ + 8 * slot_);
    advance();
  }

 private:
  template <typename Four>
  static __device__ Four four(const unsigned char* box, int row) {
    return reinterpret_cast<const Four*>(box)[row * (kTile / 4) + int(threadIdx.x % 32)];
  }
  __device__ void advance() {
    if (++slot_ == kDepth) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }

  std::uint32_t full_;
  std::uint32_t empty_;
  const unsigned char* ring_;
  std::uint32_t slot_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace norn::cuda
