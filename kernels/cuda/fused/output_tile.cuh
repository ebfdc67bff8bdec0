// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/fused/fused.h"
#include "kernels/cuda/fused/tile_targets.cuh"
#include "kernels/cuda/fused/tile_totals.h"
#include "kernels/cuda/fused/unit_loss.cuh"
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/hopper/tile_product.cuh"

/// Tiles of an output layer whose loss is computed where they are made: what does not depend on the
/// format of the deltas.
namespace norn::cuda {

template <class LossFunction>
struct OutputTask {
  TileOperands operands;
  CUtensorMap delta;
  CUtensorMap transposed;  ///< deltas transposed, where they are wanted
  LossFunction loss_function;
  TargetSource targets;
  const float* target_value;  ///< of the stored entries, or null: all 1
  const float* entry_weight;  ///< the same
  float boost_one;
  float boost_zero;
  double* tile_cost;     ///< [row tiles x column tiles]
  float* tile_gradient;  ///< [row tiles x cols] sums of the deltas, or null
};

constexpr int kOutputClusterRows = 2;  ///< two tiles of rows share the weights
constexpr int kOutputClusterCols = 1;
constexpr int kOutputStages = 4;
/// Warpgroups of a consumer. In bfloat16 two share a tile: sixteen warps hide what eight wait for.
template <typename T>
constexpr int kOutputGroups = std::is_same_v<T, float> ? 1 : 2;
/// The product of a block: examples x units, in bfloat16 or, of floats, in tf32.
template <typename T>
using OutputPipeline =
    TilePipeline<hopper::Major::k, hopper::Major::k, kOutputClusterRows, kOutputClusterCols,
                 kOutputStages, T, 2, kTile, false, kOutputGroups<T>>;
template <typename T>
constexpr int kOutputThreads = OutputPipeline<T>::kThreads* kConsumers + 128;

template <typename T>
TileOperands product_operands(MatrixView<const T> x, MatrixView<const T> w) {
  const auto clusters = [](Index size, int blocks) {
    return int((size + kTile * blocks - 1) / (kTile * blocks));
  };
  TileOperands operands;
  if constexpr (std::is_same_v<T, float>) {
    operands.a = map_operand_boxes(x);
    operands.b = map_operand_boxes(w);
  } else {
    operands.a = map_boxes(x);
    operands.b = map_boxes(w);
  }
  operands.rows_inside = true;
  operands.steps = int((x.cols + kTileDepthOf<T> - 1) / kTileDepthOf<T>);
  operands.order.inner = clusters(x.rows, kOutputClusterRows);
  operands.order.outer = clusters(w.rows, kOutputClusterCols);
  // The first units are often the popular ones: what is stored there is looked up during others.
  operands.order.first_outer = operands.order.outer / 2;
  constexpr Index kGroupBytes = 24 << 20;
  const Index bytes = x.cols * Index(sizeof(T)) * kTile * kOutputClusterRows;
  operands.order.group = int(std::clamp<Index>(kGroupBytes / bytes, 1, operands.order.inner));
  return operands;
}

/// Starts a kernel that runs run_tiles() with a `Shared`.
template <auto kKernel, typename T, class Shared, class Task>
void launch_tiles(const Stream& stream, const Task& task, const char* name) {
  constexpr int kBlocks = OutputPipeline<T>::kBlocks;
  constexpr int kThreads = kOutputThreads<T>;
  static const int resident = resident_clusters(kKernel, kThreads, kBlocks, int(sizeof(Shared)));
  const Index clusters = std::min<Index>(resident, task.operands.order.count());
  kKernel<<<unsigned(clusters * kBlocks), kThreads, sizeof(Shared), stream.stream>>>(task);
  check_launch(name);
}

/// How few units there are does not matter: a narrow block must not become of another kind when it
/// comes alone.
template <typename T>
bool takes_product(const OutputBlock& block, MatrixView<const T> x, MatrixView<const T> w) {
  constexpr Index kSmallest = 64;
  return block.target.is_sparse && !block.target.ignore_absent && x.rows >= kSmallest &&
         x.cols >= kSmallest && can_map(x) && can_map(w);
}

inline std::optional<UnitLoss> unit_loss_of(const OutputBlock& block) {
  return std::visit([](const auto& rule) { return unit_loss(rule); }, block.rule);
}

inline DeltaBoost boost_of(const OutputBlock& block) {
  return std::visit([&](const auto& rule) { return boost_of(rule, block.target.is_sparse); },
                    block.rule);
}

/// One warpgroup's part of a tile: both halves of 64 rows or one. Each thread has the sums that
/// multiply_add_64x128x16 says.
template <int kHalves>
class ProductTile {
 public:
  /// `group`: which of the block's warpgroups that multiply.
  __device__ ProductTile(const TileTargets& targets, int group)
      : targets_(targets),
        place_(targets.place),
        group_(group),
        half_(kHalves == 2 ? 0 : group % 2),
        thread_(int(threadIdx.x % kConsumerThreads)),
        row_(thread_ / 32 * 16 + thread_ % 32 / 4),
        col_(thread_ % 4 * 2) {}

  /// The sums begin with the bias.
  __device__ void begin(float (&sum)[kHalves][64]) const {
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
      const float2 bias = *reinterpret_cast<const float2*>(targets_.bias + 8 * j + col_);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        sum[half][4 * j] = sum[half][4 * j + 2] = bias.x;
        sum[half][4 * j + 1] = sum[half][4 * j + 3] = bias.y;
      }
    }
  }

 protected:
  __device__ void sync() const {
    hopper::named_sync(kConsumerBarrier + group_, kConsumerThreads);
  }

  const TileTargets& targets_;
  TilePlace place_;
  int group_;
  int half_;  ///< the first that is the warpgroup's
  int thread_;
  int row_;  ///< the thread's sums are of this row of a half and 8 more,
  int col_;  ///< of this column of 8 and 1 more
};

/// One whose loss is computed.
template <class LossFunction, int kHalves>
class OutputTile : public ProductTile<kHalves> {
 public:
  static constexpr float padding = LossFunction::padding;

  /// `warp_cost` [4]: shared memory of the tile's own.
  __device__ OutputTile(const OutputTask<LossFunction>& task, const TileTargets& targets, int group,
                        double* warp_cost)
      : ProductTile<kHalves>(targets, group), task_(task), warp_cost_(warp_cost) {}

 protected:
  using ProductTile<kHalves>::col_;
  using ProductTile<kHalves>::place_;
  using ProductTile<kHalves>::row_;
  using ProductTile<kHalves>::targets_;
  using ProductTile<kHalves>::thread_;

  /// Calls write(row, column, delta) for those of the thread's units of the half in words [kFirst,
  /// kLast) of 32 columns that have a stored target, and corrects the cost.
  template <int kHalf, int kFirst, int kLast, typename Write>
  __device__ void evaluate_stored(const float (&sum)[64], const Write& write) {
    if (targets_.count[kHalf] == 0) return;
    const int row = 64 * kHalf + row_;
    const unsigned* mask[2] = {targets_.mask[row], targets_.mask[row + 8]};
#pragma unroll
    for (int w = kFirst; w < kLast; ++w) {
      // Bit 8 * q + 2 * upper + c belongs to sum 16 * w + 4 * q + 2 * upper + c.
      unsigned left = (mask[0][w] >> col_ & 0x03030303u) | (mask[1][w] >> col_ & 0x03030303u) << 2;
      while (left != 0) {
        const int bit = __ffs(int(left)) - 1;
        left &= left - 1;
        const int upper = bit >> 1 & 1;
        const int col = 32 * w + (bit & ~7) + col_ + (bit & 1);
        write(row_ + 8 * upper, col, evaluate_one(choose(sum + 16 * w, bit), row + 8 * upper, col));
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

  const OutputTask<LossFunction>& task_;
  double* warp_cost_;
  double cost_ = 0.0;

  /// The delta of a unit that has a stored target.
  __device__ float evaluate_one(float z, int row, int col) {
    const StoredUnit unit =
        task_.loss_function.stored(z, stored_target(row, col), targets_, row, task_.boost_one);
    cost_ += unit.cost;
    return unit.delta;
  }
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

 private:
  __device__ StoredTarget stored_target(int row, int col) const {
    if (task_.target_value == nullptr && task_.entry_weight == nullptr) return {};
    const unsigned* mask = targets_.mask[row];
    int number = __popc(mask[col / 32] & ((1u << (col % 32)) - 1));
    for (int word = 0; word < col / 32; ++word) number += __popc(mask[word]);
    const RowOffset entry = targets_.entry[row] + number;
    return {task_.target_value == nullptr ? 1.0f : task_.target_value[entry],
            task_.entry_weight == nullptr ? 1.0f : task_.entry_weight[entry]};
  }
};

/// The shared memory that every such kernel has.
template <typename T>
struct OutputMemory {
  unsigned char stages[OutputPipeline<T>::kStagesBytes];
  TileTargets targets[kTargetSlots];
  typename OutputPipeline<T>::Barriers barriers;
  TargetBarriers target_barriers;
};

/// The tiles of a warpgroup's consumer, in turn with the other one's.
template <class Tile, class Task, class Pipeline, class Shared>
__device__ void consume_tiles(const Task& task, Pipeline& pipeline, int group, Shared& shared) {
  const int consumer = group / Pipeline::kGroups;
  const auto tiles = unsigned(task.operands.order.count());
  const auto stride = unsigned(pipeline.stride());
  auto tile = unsigned(pipeline.first()) + unsigned(consumer) * stride;
  for (int number = consumer; tile < tiles; tile += kConsumers * stride, number += kConsumers) {
    const TargetSlot at(number);
    hopper::barrier_wait(hopper::shared_address(shared.target_barriers.full + at.slot), at.parity);
    Tile units(task, shared.targets[at.slot], group, shared);
    float sum[Pipeline::kGroupHalves][64];
    units.begin(sum);
    pipeline.multiply(number, consumer, sum);
    pipeline.finish(sum);
    units.finish(sum);
    hopper::barrier_arrive(hopper::shared_address(shared.target_barriers.empty + at.slot));
  }
  // What the copy engine still reads is shared memory of this block, which ends soon.
  if (threadIdx.x % kConsumerThreads == 0) hopper::wait_for_store_reads();
}

/// A kernel whose blocks make one Tile of a product after the other. `Shared` has what OutputMemory
/// has, and what the Tiles want besides.
template <class Tile, typename T, class Task, class Shared>
__device__ void run_tiles(const Task& task, Shared& shared) {
  using Pipeline = OutputPipeline<T>;
  Pipeline pipeline(task.operands, shared.barriers, hopper::shared_address(shared.stages));
  if (threadIdx.x == 0) {
    shared.target_barriers.init(Pipeline::kThreads);
    pipeline.init();
  }
  __syncthreads();
  hopper::cluster_sync();
  constexpr bool kPairs = Pipeline::kGroups == 2;
  const int group = warpgroup();
  if (group == 0) {
    hopper::give_registers<kPairs ? 64 : 56>();
    const int warp = __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 32, 0);
    if (warp == 0)
      pipeline.produce();
    else
      find_all_targets(task.targets, pipeline, warp - 1, task.operands.order.count(), Tile::padding,
                       shared.targets, shared.target_barriers);
  } else {
    hopper::take_registers<kPairs ? 104 : 224>();
    if (group > Pipeline::kGroups) Pipeline::let_first_begin();
    consume_tiles<Tile>(task, pipeline, group - 1, shared);
  }
  hopper::cluster_sync();  // others may still copy into this block or arrive at its barriers
}

}  // namespace norn::cuda
