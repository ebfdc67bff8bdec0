// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/fused.h"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/tile_targets.cuh"
#include "kernels/cuda/tile_totals.h"

/// Tiles of an output layer that are judged where they are made: what does not depend on the format
/// of the deltas.
namespace norn::cuda {

template <class Judge>
struct OutputTask {
  TileOperands operands;
  CUtensorMap delta;
  CUtensorMap turned;  ///< deltas turned over, where they are wanted
  Judge judge;
  TargetSource targets;
  const float* target_value;  ///< or null: all 1
  float boost_one;
  float boost_zero;
  double* tile_cost;     ///< [row tiles x column tiles]
  float* tile_gradient;  ///< [row tiles x cols] sums of the deltas, or null
};

/// One warpgroup's finished tile. Each thread has the sums that multiply_add_64x128x16 says.
template <class Judge>
class OutputTile {
 public:
  /// `warp_cost` [4]: shared memory of the warpgroup's own.
  __device__ OutputTile(const OutputTask<Judge>& task, const TileTargets& targets, int consumer,
                        double* warp_cost)
      : task_(task),
        targets_(targets),
        place_(targets.place),
        consumer_(consumer),
        warp_cost_(warp_cost),
        thread_(int(threadIdx.x % kConsumerThreads)),
        row_(thread_ / 32 * 16 + thread_ % 32 / 4),
        col_(thread_ % 4 * 2) {}

  /// The sums begin with the bias.
  __device__ void begin(float (&sum)[2][64]) const {
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
      const float2 bias = *reinterpret_cast<const float2*>(targets_.bias + 8 * j + col_);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[half][4 * j] = sum[half][4 * j + 2] = bias.x;
        sum[half][4 * j + 1] = sum[half][4 * j + 3] = bias.y;
      }
    }
  }

 protected:
  __device__ void sync() const {
    hopper::named_sync(kConsumerBarrier + consumer_, kConsumerThreads);
  }
  /// Calls write(row, column, delta) for those of the thread's units of the half in words [kFirst,
  /// kLast) of 32 columns that have a stored target, and corrects the cost.
  template <int kHalf, int kFirst, int kLast, typename Write>
  __device__ void judge_stored(const float (&sum)[64], const Write& write) {
    if (targets_.count[kHalf] == 0) return;
    const int row = 64 * kHalf + row_;
    const unsigned* mask[2] = {targets_.mask[row], targets_.mask[row + 8]};
    const float weight[2] = {targets_.weight[row], targets_.weight[row + 8]};
#pragma unroll
    for (int w = kFirst; w < kLast; ++w) {
      // Bit 8 * q + 2 * upper + c belongs to sum 16 * w + 4 * q + 2 * upper + c.
      unsigned left = (mask[0][w] >> col_ & 0x03030303u) | (mask[1][w] >> col_ & 0x03030303u) << 2;
      while (left != 0) {
        const int bit = __ffs(int(left)) - 1;
        left &= left - 1;
        const int upper = bit >> 1 & 1;
        const int col = 32 * w + (bit & ~7) + col_ + (bit & 1);
        const float value = stored_value(row + 8 * upper, col);
        const float delta =
            judge_one(choose(sum + 16 * w, bit), value, upper ? weight[1] : weight[0]);
        write(row_ + 8 * upper, col, delta);
      }
    }
  }

  /// The warp's costs in a fixed order.
  __device__ void share_cost() {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) cost_ += __shfl_down_sync(0xFFFFFFFFu, cost_, step);
    if (thread_ % 32 == 0) warp_cost_[thread_ / 32] = cost_;
  }
  /// By one thread, once all warps have shared theirs.
  __device__ void store_cost() const {
    if (place_.row >= task_.targets.rows || place_.col >= task_.targets.cols) return;
    const double* cost = warp_cost_;
    task_.tile_cost[Index(place_.row / kTile) * task_.targets.tiles + place_.col / kTile] =
        (cost[0] + cost[1]) + (cost[2] + cost[3]);
  }

  const OutputTask<Judge>& task_;
  const TileTargets& targets_;
  TilePlace place_;
  int consumer_;
  double* warp_cost_;
  int thread_;
  int row_;  ///< the thread's sums are of this row of a half and 8 more,
  int col_;  ///< of this column of 8 and 1 more
  double cost_ = 0.0;

 private:
  /// sum[4 * (bit / 8) + bit % 4], from registers.
  static __device__ __forceinline__ float choose(const float* sum, int bit) {
    float four[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const float* of = sum + 4 * q;
      const float low = bit & 1 ? of[1] : of[0];
      const float high = bit & 1 ? of[3] : of[2];
      four[q] = bit & 2 ? high : low;
    }
    const float low = bit & 8 ? four[1] : four[0];
    const float high = bit & 8 ? four[3] : four[2];
    return bit & 16 ? high : low;
  }
  __device__ float stored_value(int row, int col) const {
    if (task_.target_value == nullptr) return 1.0f;
    const unsigned* mask = targets_.mask[row];
    int number = __popc(mask[col / 32] & ((1u << (col % 32)) - 1));
    for (int word = 0; word < col / 32; ++word) number += __popc(mask[word]);
    return task_.target_value[targets_.entry[row] + number];
  }
  __device__ float judge_one(float z, float value, float weight) {
    const auto& f = task_.judge.activation;
    const auto& loss = task_.judge.loss;
    const ElementCost<float> one = element_cost(f, loss, z, loss.stored_target(value));
    const ElementCost<float> zero = element_cost(f, loss, z, 0.0f);
    cost_ += double(weight) * double(one.cost - zero.cost);
    return weight * task_.boost_one * one.delta;
  }
};

}  // namespace norn::cuda
