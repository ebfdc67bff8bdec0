// SPDX-License-Identifier: Apache-2.0
// Output units judged in the product that makes them: pre-activations never leave the
// multiprocessor, deltas leave it rounded.
#include "kernels/cuda/fused.h"
#include "kernels/cuda/persistent.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/tile_sums.cuh"
#include "kernels/cuda/tile_targets.cuh"
#include "kernels/cuda/tile_totals.h"
#include "kernels/cuda/unit_judge.cuh"

#include <cuda_bf16.h>

namespace norn::cuda {
namespace {

constexpr int kClusterRows = 2;  // two tiles of rows share the weights
constexpr int kClusterCols = 1;
constexpr int kStages = 4;
using Pipeline =
    TilePipeline<hopper::Major::k, hopper::Major::k, kClusterRows, kClusterCols, kStages>;
using Sums = float[2][64];
constexpr int kWarps = kConsumerThreads / 32;  // of a consumer
constexpr int kListed = 64;                    // stored targets that a warp judges at a time

template <class Judge>
struct OutputTask {
  TileOperands operands;
  CUtensorMap delta;
  Judge judge;
  TargetSource targets;
  const float* target_value;  ///< or null: all 1
  float boost_one;
  float boost_zero;
  double* tile_cost;     ///< [row tiles x column tiles]
  float* tile_gradient;  ///< [row tiles x cols] sums of the deltas, or null
};

/// A stored target whose pre-activation was handed over.
struct ListedUnit {
  float z;
  short row;
  short col;
};

/// What a warp has of its own: first the one, then the other.
union WarpMemory {
  ListedUnit list[kListed];
  float gradient[kTile];
};

/// What a consumer has of its own.
struct ConsumerMemory {
  WarpMemory warp[kWarps];
  double warp_cost[kWarps];
};

struct SharedMemory {
  unsigned char stages[Pipeline::kStagesBytes];
  unsigned char delta[kConsumers][kTileBytes];
  TileTargets targets[kTargetSlots];
  alignas(16) ConsumerMemory own[kConsumers];
  Pipeline::Barriers barriers;
  TargetBarriers target_barriers;
};

/// A consumer's finished tile, by each of its threads.
template <class Judge>
class TileJudge {
 public:
  __device__ TileJudge(const OutputTask<Judge>& task, const TileTargets& targets, int consumer,
                       SharedMemory& shared)
      : task_(task),
        targets_(targets),
        place_(targets.place),
        consumer_(consumer),
        delta_(shared.delta[consumer]),
        own_(shared.own[consumer]),
        thread_(int(threadIdx.x % kConsumerThreads)),
        warp_(__shfl_sync(0xFFFFFFFFu, thread_ / 32, 0)),
        first_row_(warp_ * 16),
        col_(thread_ % 4 * 2) {}

  /// The sums begin with the bias.
  __device__ void begin(Sums& sum) const {
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

  /// Absent entries, then the stored ones, then away with the tile.
  __device__ void finish(const Sums& sum) {
    if (thread_ == 0) hopper::wait_for_store_reads();
    sync();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = first_row_ + 64 * half;
      judge_absent(sum[half], first);
      if (targets_.count[first / 64] > 0) judge_stored(sum[half], first);
    }
    share_cost();
    if (task_.tile_gradient != nullptr) {
      __syncwarp();
      sum_tile_columns<2>(delta_, first_row_, own_.warp[warp_].gradient);
    }
    hopper::fence_async();
    sync();
    if (thread_ == 0) store();
    if (task_.tile_gradient != nullptr) store_gradient();
  }

 private:
  __device__ void sync() const {
    hopper::named_sync(kConsumerBarrier + consumer_, kConsumerThreads);
  }
  /// 16 rows from `first` on, by a warp.
  __device__ void judge_absent(const float (&sum)[64], int first) {
    typename Judge::Cost cost[2];
    float weight[2];
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int row = first + 8 * upper;
      weight[upper] = targets_.weight[row + thread_ % 32 / 4];
      const float factor = weight[upper] * task_.boost_zero * task_.judge.scale;
      const unsigned char* to = delta_ + tile_place(row + thread_ % 8, thread_ % 32 / 8 * 8);
      cost[upper] = judge_row<false>(sum + 2 * upper, factor, to);
      if (__any_sync(kAll, !cost[upper].fits()))
        cost[upper] = judge_row<true>(sum + 2 * upper, factor, to);
    }
    if (weight[0] == weight[1]) {
      cost[0].join(cost[1]);
      cost_ += double(weight[0] * task_.judge.scale) * double(cost[0].total());
    } else {
      cost_ += double(weight[0] * task_.judge.scale) * double(cost[0].total()) +
               double(weight[1] * task_.judge.scale) * double(cost[1].total());
    }
  }
  /// The thread's 32 units of a row; the warp writes 8 rows. `to` is the lane's place in the first
  /// four octets of columns.
  template <bool kSafe>
  __device__ __forceinline__ typename Judge::Cost judge_row(const float* z, float factor,
                                                            const unsigned char* to) const {
    const std::uint32_t place = hopper::shared_address(to);
    typename Judge::Cost cost;
#pragma unroll
    for (int j = 0; j < kTile / 8; j += 4) {
      std::uint32_t pair[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float* two = z + 4 * (j + q);
        const float2 delta = task_.judge.template absent<kSafe>(two[0], two[1], factor, cost);
        const __nv_bfloat162 both = __floats2bfloat162_rn(delta.x, delta.y);
        pair[q] = *reinterpret_cast<const std::uint32_t*>(&both);
      }
      // The next four octets differ in one bit of the swizzled place, the next eight are a piece
      // on.
      hopper::store_matrices((place ^ std::uint32_t(j % 8 * 16)) + j / 8 * kPieceBytes, pair);
    }
    return cost;
  }

  /// The stored targets of 16 rows from `first` on, by a warp: those who hold their pre-activations
  /// hand them over, so that each lane has one to judge.
  __device__ void judge_stored(const float (&sum)[64], int first) {
    const int row = first + thread_ % 32 / 4;
    ListedUnit* list = own_.warp[warp_].list;
    int listed = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      // Bit 8 * q + 2 * upper + c belongs to sum 16 * w + 4 * q + 2 * upper + c.
      unsigned left = (targets_.mask[row][w] >> col_ & 0x03030303u) |
                      (targets_.mask[row + 8][w] >> col_ & 0x03030303u) << 2;
      while (const unsigned some = __ballot_sync(kAll, left != 0)) {
        if (listed > kListed - 32) {
          judge_listed(listed);
          listed = 0;
        }
        if (left != 0) {
          const int bit = __ffs(int(left)) - 1;
          left &= left - 1;
          list[listed + __popc(some & ((1u << (thread_ % 32)) - 1))] = {
              choose(sum + 16 * w, bit), short(row + (bit >> 1 & 1) * 8),
              short(32 * w + (bit & ~7) + col_ + (bit & 1))};
        }
        listed += __popc(some);
      }
    }
    judge_listed(listed);
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
  __device__ float stored_value(int row, int col) const {
    if (task_.target_value == nullptr) return 1.0f;
    const unsigned* mask = targets_.mask[row];
    int number = __popc(mask[col / 32] & ((1u << (col % 32)) - 1));
    for (int word = 0; word < col / 32; ++word) number += __popc(mask[word]);
    return task_.target_value[targets_.entry[row] + number];
  }
  __device__ __forceinline__ void judge_listed(int count) {
    __syncwarp();
    for (int i = thread_ % 32; i < count; i += 32) {
      const ListedUnit unit = own_.warp[warp_].list[i];
      const auto& f = task_.judge.activation;
      const auto& loss = task_.judge.loss;
      const float target = loss.stored_target(stored_value(unit.row, unit.col));
      const ElementCost<float> one = element_cost(f, loss, unit.z, target);
      const ElementCost<float> zero = element_cost(f, loss, unit.z, 0.0f);
      const float weight = targets_.weight[unit.row];
      *reinterpret_cast<__nv_bfloat16*>(delta_ + tile_place(unit.row, unit.col)) =
          __float2bfloat16_rn(weight * task_.boost_one * one.delta);
      cost_ += double(weight) * double(one.cost - zero.cost);
    }
    __syncwarp();
  }

  /// The warp's costs in a fixed order.
  __device__ void share_cost() {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) cost_ += __shfl_down_sync(0xFFFFFFFFu, cost_, step);
    if (thread_ % 32 == 0) own_.warp_cost[warp_] = cost_;
  }
  __device__ void store() const {
    for (int half = 0; half < 2; ++half)
      for (int piece = 0; piece < 2; ++piece)
        hopper::store_box(task_.delta,
                          hopper::shared_address(delta_) + (2 * half + piece) * kPieceBytes,
                          place_.col + 64 * piece, place_.row + 64 * half);
    hopper::commit_stores();
    if (place_.row >= task_.targets.rows || place_.col >= task_.targets.cols) return;
    double cost = 0.0;
    for (int warp = 0; warp < kWarps; ++warp) cost += own_.warp_cost[warp];
    task_.tile_cost[Index(place_.row / kTile) * task_.targets.tiles + place_.col / kTile] = cost;
  }
  __device__ void store_gradient() const {
    const Index col = place_.col + thread_;
    if (thread_ >= kTile || place_.row >= task_.targets.rows || col >= task_.targets.cols) return;
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += own_.warp[warp].gradient[thread_];
    task_.tile_gradient[Index(place_.row / kTile) * task_.targets.cols + col] = sum;
  }

  static constexpr unsigned kAll = 0xFFFFFFFFu;
  const OutputTask<Judge>& task_;
  const TileTargets& targets_;
  TilePlace place_;
  int consumer_;
  unsigned char* delta_;
  ConsumerMemory& own_;
  int thread_;
  int warp_;
  int first_row_;  ///< of the 16 rows of a half that are the warp's. A thread's are number lane / 4
  int col_;        ///< and 8 more, its columns this one of 8 and 1 more
  double cost_ = 0.0;
};

template <class Judge>
__device__ void consume(const OutputTask<Judge>& task, Pipeline& pipeline, int consumer,
                        SharedMemory& shared) {
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < task.operands.order.count();
       tile += pipeline.stride(), ++number) {
    if (number % kConsumers != consumer) continue;
    const TargetSlot at(number);
    hopper::barrier_wait(hopper::shared_address(shared.target_barriers.full + at.slot), at.parity);
    TileJudge<Judge> judge(task, shared.targets[at.slot], consumer, shared);
    Sums sum;
    judge.begin(sum);
    pipeline.multiply(number, consumer, sum);
    pipeline.finish(sum);
    judge.finish(sum);
    hopper::barrier_arrive(hopper::shared_address(shared.target_barriers.empty + at.slot));
  }
  // What the copy engine still reads is shared memory of this block, which ends soon.
  if (threadIdx.x % kConsumerThreads == 0) hopper::wait_for_store_reads();
}

/// By one of kTargetWarps warps: the stored targets of its rows of all tiles.
template <class Judge>
__device__ void find_all_targets(const OutputTask<Judge>& task, const Pipeline& pipeline, int half,
                                 SharedMemory& shared) {
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < task.operands.order.count();
       tile += pipeline.stride(), ++number) {
    const TargetSlot at(number);
    const TilePlace place = pipeline.place(tile);
    hopper::barrier_wait(hopper::shared_address(shared.target_barriers.empty + at.slot),
                         at.parity ^ 1);
    TargetFinder(task.targets, half, shared.targets[at.slot]).find(place, Judge::padding);
    hopper::barrier_arrive(hopper::shared_address(shared.target_barriers.full + at.slot));
  }
}

template <class Judge>
__global__ void __cluster_dims__(Pipeline::kBlocks) __launch_bounds__(kTileThreads, 1)
    output_delta_kernel(const __grid_constant__ OutputTask<Judge> task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  SharedMemory& shared = *reinterpret_cast<SharedMemory*>(bytes);
  Pipeline pipeline(task.operands, shared.barriers, hopper::shared_address(shared.stages));
  if (threadIdx.x == 0) {
    shared.target_barriers.init(kConsumerThreads);
    pipeline.init();
  }
  __syncthreads();
  hopper::cluster_sync();
  const int group = warpgroup();
  if (group == 0) {
    hopper::give_registers<40>();
    const int warp = __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 32, 0);
    if (warp == 0)
      pipeline.produce();
    else if (warp <= kTargetWarps)
      find_all_targets(task, pipeline, warp - 1, shared);
  } else {
    hopper::take_registers<232>();
    if (group == 2) Pipeline::let_first_begin();
    consume(task, pipeline, group - 1, shared);
  }
  hopper::cluster_sync();  // others may still copy into this block or arrive at its barriers
#endif
}

bool supported(const OutputBlock& block) {
  constexpr Index kSmallest = 64;
  const MatrixView<const Bfloat16>& x = block.x.rounded;
  const MatrixView<const Bfloat16>& w = block.w.rounded;
  return block.target.is_sparse && !block.target.ignore_absent && x.rows >= kSmallest &&
         w.rows >= kSmallest && x.cols >= kSmallest && can_map(x) && can_map(w) &&
         can_map(block.rounded_delta);
}

TileOperands operands_of(const OutputBlock& block) {
  const auto clusters = [](Index size, int blocks) {
    return int((size + kTile * blocks - 1) / (kTile * blocks));
  };
  const MatrixView<const Bfloat16>& x = block.x.rounded;
  TileOperands operands;
  operands.a = map_boxes(x);
  operands.b = map_boxes(block.w.rounded);
  operands.rows_inside = true;
  operands.steps = int((x.cols + kTileDepth - 1) / kTileDepth);
  operands.order.inner = clusters(x.rows, kClusterRows);
  operands.order.outer = clusters(block.w.rounded.rows, kClusterCols);
  // The first units are often the popular ones: what is stored there is looked up during others.
  operands.order.first_outer = operands.order.outer / 2;
  constexpr Index kGroupBytes = 24 << 20;
  const Index bytes = x.cols * 2 * kTile * kClusterRows;
  operands.order.group = int(std::clamp<Index>(kGroupBytes / bytes, 1, operands.order.inner));
  return operands;
}

/// Units beyond the layer have no delta: theirs are the zeros behind the others.
CUtensorMap map_delta(const OutputBlock& block) {
  MatrixView<const Bfloat16> delta = block.rounded_delta;
  const Index padded = (delta.cols + 7) / 8 * 8;
  if (padded <= delta.stride) delta.cols = padded;
  return map_boxes(delta);
}

template <class Judge>
void launch(const Stream& stream, const OutputTask<Judge>& task) {
  static const int resident = resident_clusters(output_delta_kernel<Judge>, kTileThreads,
                                                Pipeline::kBlocks, int(sizeof(SharedMemory)));
  const Index clusters = std::min<Index>(resident, task.operands.order.count());
  output_delta_kernel<Judge><<<unsigned(clusters * Pipeline::kBlocks), kTileThreads,
                               sizeof(SharedMemory), stream.stream>>>(task);
  check_launch("output_delta_kernel");
}

}  // namespace

bool output_delta_bfloat16(const Stream& stream, OutputScratch& scratch, const OutputBlock& block) {
  const std::optional<UnitJudge> judge = unit_judge(block.rule.activation, block.rule.loss);
  if (!judge || !supported(block) || !has_whole_tiles(block)) return false;
  const Index rows = block.x.rounded.rows;
  const Index row_tiles = (rows + kTile - 1) / kTile;
  const TargetSource targets = find_targets(stream, scratch.target_offset, block);
  const TileTotals totals = totals_of(stream, scratch, block, row_tiles, targets.tiles);
  const bool boosts = !std::holds_alternative<ScaledMarginalCrossEntropy>(block.rule.loss) &&
                      !std::holds_alternative<DataScaledMarginalCrossEntropy>(block.rule.loss);
  const float boost_one = boosts ? block.rule.boost_one : 1.0f;
  const float boost_zero = boosts ? block.rule.boost_zero : 1.0f;
  std::visit(
      [&](const auto& j) {
        using Judge = std::remove_cvref_t<decltype(j)>;
        launch(stream, OutputTask<Judge>{operands_of(block), map_delta(block), j, targets,
                                         block.target.sparse.value, boost_one, boost_zero,
                                         totals.tile_cost, totals.tile_gradient});
      },
      *judge);
  return true;
}

}  // namespace norn::cuda
