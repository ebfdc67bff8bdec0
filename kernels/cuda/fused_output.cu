// SPDX-License-Identifier: Apache-2.0
// Output units judged in the product that makes them: pre-activations never leave the
// multiprocessor, deltas leave it rounded.
#include "kernels/cuda/fused.h"
#include "kernels/cuda/persistent.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile_product.cuh"
#include "kernels/cuda/tile_sums.cuh"
#include "kernels/cuda/tile_targets.cuh"
#include "kernels/cuda/unit_judge.cuh"

#include <cuda_bf16.h>

namespace norn::cuda {
namespace {

constexpr int kClusterRows = 2;  // two tiles of rows share the weights
constexpr int kClusterCols = 1;
constexpr int kStages = 5;
using Pipeline =
    TilePipeline<hopper::Major::k, hopper::Major::k, kClusterRows, kClusterCols, kStages>;

constexpr int kHalf = kTile / 2;             // rows that are written at a time
constexpr int kHalfBytes = 2 * kPieceBytes;  // their deltas: two pieces of 64 columns

template <class Judge>
struct OutputTask {
  TileOperands operands;
  CUtensorMap delta;
  Judge judge;
  VectorView<const float> bias;
  VectorView<const float> weight;
  TargetSource targets;
  const float* target_value;  ///< or null: all 1
  Index cols;
  int col_tiles;
  float boost_one;
  float boost_zero;
  double* tile_cost;     ///< [row tiles x col_tiles]
  float* tile_gradient;  ///< [row tiles x cols] sums of the deltas, or null
};

/// What a consumer has of its own.
struct ConsumerMemory {
  TileTargets targets;
  double warp_cost[4];
};

struct SharedMemory {
  unsigned char stages[Pipeline::kStagesBytes];
  unsigned char delta[kConsumers][kHalfBytes];
  ConsumerMemory own[kConsumers];
  Pipeline::Barriers barriers;
  TargetBarriers target_barriers;
};

/// One warpgroup's finished tile.
template <class Judge>
class TileJudge {
 public:
  __device__ TileJudge(const OutputTask<Judge>& task, TilePlace place, int consumer,
                       SharedMemory& shared)
      : task_(task),
        place_(place),
        consumer_(consumer),
        delta_(shared.delta[consumer]),
        own_(shared.own[consumer]),
        thread_(int(threadIdx.x % kConsumerThreads)),
        row_(thread_ / 32 * 16 + thread_ % 32 / 4),
        col_(thread_ % 4 * 2) {}

  /// The sums begin with the bias, and beyond the layer with what costs nothing.
  __device__ void begin(float (&sum)[2][64]) const {
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const Index col = place_.col + 8 * j + col_ + c;
        const float bias = col < task_.cols ? task_.bias[col] : Judge::padding;
#pragma unroll
        for (int half = 0; half < 2; ++half) sum[half][4 * j + c] = sum[half][4 * j + 2 + c] = bias;
      }
    }
  }

  /// Half a tile: absent entries, then the stored ones, then away with it.
  template <int kHalfIndex>
  __device__ void half(const float (&sum)[2][64]) {
    if (thread_ == 0) hopper::wait_for_store_reads();
    sync();
    judge_absent<kHalfIndex>(sum[kHalfIndex]);
    if (own_.targets.count[kHalfIndex] > 0) judge_stored<kHalfIndex>(sum[kHalfIndex]);
    if (kHalfIndex == 1) share_cost();
    hopper::fence_async();
    sync();
    if (thread_ == 0) store(kHalfIndex);
    if (task_.tile_gradient == nullptr) return;
    gradient_.add(hopper::shared_address(delta_));
    if (kHalfIndex == 1) store_gradient();
  }

 private:
  __device__ void sync() const {
    hopper::named_sync(kConsumerBarrier + consumer_, kConsumerThreads);
  }
  __device__ float weight_of(Index row) const {
    if (row >= task_.targets.rows) return 0.0f;
    return task_.weight.empty() ? 1.0f : task_.weight[row];
  }

  template <int kHalfIndex>
  __device__ void judge_absent(const float (&sum)[64]) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const float weight = weight_of(place_.row + kHalf * kHalfIndex + row_ + 8 * upper);
      const float factor = weight * task_.boost_zero * task_.judge.scale;
      typename Judge::Cost cost;
#pragma unroll
      for (int j = 0; j < kTile / 8; j += 4) {
        std::uint32_t pair[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const float* z = sum + 4 * (j + q) + 2 * upper;
          const float low = factor * task_.judge.absent(z[0], cost);
          const float high = factor * task_.judge.absent(z[1], cost);
          const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
          pair[q] = *reinterpret_cast<const std::uint32_t*>(&both);
        }
        const int row = row_ - thread_ % 32 / 4 + 8 * upper + thread_ % 8;
        const int col = 8 * (j + thread_ % 32 / 8);
        hopper::store_matrices(hopper::shared_address(delta_ + tile_place(row, col)), pair);
      }
      cost_ += double(weight * task_.judge.scale) * double(cost.total());
    }
  }

  /// Once more for those of the thread's units that have a stored target.
  template <int kHalfIndex>
  __device__ void judge_stored(const float (&sum)[64]) {
    const int row = kHalf * kHalfIndex + row_;
    const unsigned* mask[2] = {own_.targets.mask[row], own_.targets.mask[row + 8]};
    const float weight = weight_of(place_.row + row);
    const float weight8 = weight_of(place_.row + row + 8);
    __syncwarp();  // the warp's absent ones are written
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      // Bit 8 * q + 2 * upper + c belongs to sum 16 * w + 4 * q + 2 * upper + c.
      unsigned left = (mask[0][w] >> col_ & 0x03030303u) | (mask[1][w] >> col_ & 0x03030303u) << 2;
      while (left != 0) {
        const int bit = __ffs(int(left)) - 1;
        left &= left - 1;
        const int upper = bit >> 1 & 1;
        const int col = 32 * w + (bit & ~7) + col_ + (bit & 1);
        const float value = stored_value(row + 8 * upper, col);
        judge_one(choose(sum + 16 * w, bit), value, upper ? weight8 : weight, row_ + 8 * upper,
                  col);
      }
    }
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
    const unsigned* mask = own_.targets.mask[row];
    int number = __popc(mask[col / 32] & ((1u << (col % 32)) - 1));
    for (int word = 0; word < col / 32; ++word) number += __popc(mask[word]);
    return task_.target_value[own_.targets.entry[row] + number];
  }
  __device__ void judge_one(float z, float value, float weight, int row, int col) {
    const auto& f = task_.judge.activation;
    const auto& loss = task_.judge.loss;
    const ElementCost<float> one = element_cost(f, loss, z, loss.stored_target(value));
    const ElementCost<float> zero = element_cost(f, loss, z, 0.0f);
    *reinterpret_cast<__nv_bfloat16*>(delta_ + tile_place(row, col)) =
        __float2bfloat16_rn(weight * task_.boost_one * one.delta);
    cost_ += double(weight) * double(one.cost - zero.cost);
  }

  /// The warp's costs in a fixed order.
  __device__ void share_cost() {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) cost_ += __shfl_down_sync(0xFFFFFFFFu, cost_, step);
    if (thread_ % 32 == 0) own_.warp_cost[thread_ / 32] = cost_;
  }
  __device__ void store(int half) const {
    for (int piece = 0; piece < 2; ++piece)
      hopper::store_box(task_.delta, hopper::shared_address(delta_) + piece * kPieceBytes,
                        place_.col + 64 * piece, place_.row + kHalf * half);
    hopper::commit_stores();
    if (half == 0 || place_.row >= task_.targets.rows) return;
    const double* cost = own_.warp_cost;
    task_.tile_cost[Index(place_.row / kTile) * task_.col_tiles + place_.col / kTile] =
        (cost[0] + cost[1]) + (cost[2] + cost[3]);
  }

  __device__ void store_gradient() const {
    const Index col = place_.col + TileColumnSums::column();
    if (place_.row < task_.targets.rows && col < task_.cols)
      task_.tile_gradient[Index(place_.row / kTile) * task_.cols + col] = gradient_.sum();
  }

  const OutputTask<Judge>& task_;
  TilePlace place_;
  int consumer_;
  unsigned char* delta_;
  ConsumerMemory& own_;
  int thread_;
  int row_;  ///< the thread's sums are of this row of a half and 8 more,
  int col_;  ///< of this column of 8 and 1 more
  double cost_ = 0.0;
  TileColumnSums gradient_;
};

template <class Judge>
__device__ void consume(const OutputTask<Judge>& task, Pipeline& pipeline, int consumer,
                        SharedMemory& shared) {
  const std::uint32_t full = hopper::shared_address(&shared.target_barriers.full[consumer]);
  const std::uint32_t empty = hopper::shared_address(&shared.target_barriers.empty[consumer]);
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < task.operands.order.count();
       tile += pipeline.stride(), ++number) {
    if (number % kConsumers != consumer) continue;
    TileJudge<Judge> judge(task, pipeline.place(tile), consumer, shared);
    float sum[2][64];
    judge.begin(sum);
    pipeline.multiply(number, consumer, sum);
    pipeline.finish(sum);
    hopper::barrier_wait(full, std::uint32_t(number / kConsumers) & 1);
    judge.template half<0>(sum);
    judge.template half<1>(sum);
    if (threadIdx.x % 32 == 0) hopper::barrier_arrive(empty);
  }
}

/// By one of kTargetWarps warps: the stored targets of its rows of all tiles.
template <class Judge>
__device__ void find_all_targets(const OutputTask<Judge>& task, const Pipeline& pipeline, int half,
                                 SharedMemory& shared) {
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < task.operands.order.count();
       tile += pipeline.stride(), ++number) {
    const int consumer = int(number % kConsumers);
    const std::uint32_t parity = std::uint32_t(number / kConsumers) & 1;
    hopper::barrier_wait(hopper::shared_address(&shared.target_barriers.empty[consumer]),
                         parity ^ 1);
    TargetFinder(task.targets, half, shared.own[consumer].targets).find(pipeline.place(tile));
    hopper::barrier_arrive(hopper::shared_address(&shared.target_barriers.full[consumer]));
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
    shared.target_barriers.init();
    pipeline.init();
  }
  __syncthreads();
  hopper::cluster_sync();
  const int group = warpgroup();
  if (group == 0) {
    hopper::give_registers<48>();
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

__global__ void __launch_bounds__(128)
    find_offsets_kernel(const TargetSource source, Index end_unit, int* offset) {
  find_offsets(source, end_unit, offset);
}

/// What the tiles leave to be added up.
struct TileTotals {
  const double* tile_cost;  ///< [tiles]
  Index tiles;
  double* cost;
  const float* tile_gradient;  ///< [row_tiles x cols]
  Index row_tiles;
  Index cols;
  double scale;
  float* gradient;  ///< [cols]
};

/// The first block adds the costs, the others a column for each thread, in orders that the numbers
/// of tiles fix.
constexpr int kTotalThreads = 512;
__global__ void __launch_bounds__(kTotalThreads) total_kernel(const TileTotals task) {
  if (blockIdx.x > 0) {
    const Index col = Index(blockIdx.x - 1) * kTotalThreads + threadIdx.x;
    if (col >= task.cols) return;
    double sum = 0.0;
#pragma unroll 8
    for (Index i = 0; i < task.row_tiles; ++i)
      sum += double(task.tile_gradient[i * task.cols + col]);
    task.gradient[col] = float(task.scale * sum);
    return;
  }
  __shared__ double part[kTotalThreads];
  double sum = 0.0;
#pragma unroll 8
  for (Index i = threadIdx.x; i < task.tiles; i += kTotalThreads) sum += task.tile_cost[i];
  part[threadIdx.x] = sum;
  for (unsigned half = kTotalThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *task.cost = part[0];
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
  constexpr Index kGroupBytes = 24 << 20;
  const Index bytes = x.cols * 2 * kTile * kClusterRows;
  operands.order.group = int(std::clamp<Index>(kGroupBytes / bytes, 1, operands.order.inner));
  return operands;
}

TargetSource find_targets(const Stream& stream, Scratch<int>& scratch, const OutputBlock& block) {
  const CsrView& sparse = block.target.sparse;
  const Index rows = block.x.rounded.rows;
  const Index cols = block.w.rounded.rows;
  TargetSource source{sparse.column,
                      sparse.row_begin,
                      nullptr,
                      (rows + 63) / 64 * 64,
                      rows,
                      block.first_unit,
                      int((cols + kTile - 1) / kTile)};
  int* offset = scratch.reserve((source.tiles + 1) * source.stride);
  source.offset = offset;
  const dim3 grid(blocks_for(source.stride, 128, source.stride),
                  blocks_for(source.tiles + 1, kTilesAThread, source.tiles + 1));
  find_offsets_kernel<<<grid, 128, 0, stream.stream>>>(source, block.first_unit + cols, offset);
  check_launch("find_offsets_kernel");
  return source;
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
  if (!judge || !supported(block)) return false;
  const Index rows = block.x.rounded.rows;
  const Index cols = block.w.rounded.rows;
  const int col_tiles = int((cols + kTile - 1) / kTile);
  const Index row_tiles = (rows + kTile - 1) / kTile;
  const TargetSource targets = find_targets(stream, scratch.target_offset, block);
  double* costs = scratch.tile_cost.reserve(row_tiles * col_tiles);
  const bool summed = !block.bias_gradient.empty();
  float* sums = summed ? scratch.tile_gradient.reserve(row_tiles * cols) : nullptr;
  const bool boosts = !std::holds_alternative<ScaledMarginalCrossEntropy>(block.rule.loss) &&
                      !std::holds_alternative<DataScaledMarginalCrossEntropy>(block.rule.loss);
  std::visit(
      [&](const auto& j) {
        using Judge = std::remove_cvref_t<decltype(j)>;
        launch(stream,
               OutputTask<Judge>{operands_of(block), map_boxes(block.rounded_delta), j, block.bias,
                                 block.target.weight, targets, block.target.sparse.value, cols,
                                 col_tiles, boosts ? block.rule.boost_one : 1.0f,
                                 boosts ? block.rule.boost_zero : 1.0f, costs, sums});
      },
      *judge);
  const unsigned column_blocks = summed ? blocks_for(cols, kTotalThreads, cols) : 0;
  total_kernel<<<1 + column_blocks, kTotalThreads, 0, stream.stream>>>(
      {costs, row_tiles * col_tiles, block.cost, sums, row_tiles, cols, double(block.bias_scale),
       block.bias_gradient.data});
  check_launch("total_kernel");
  return true;
}

}  // namespace norn::cuda
