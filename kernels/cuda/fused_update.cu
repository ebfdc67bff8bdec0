// SPDX-License-Identifier: Apache-2.0
// Weight gradient and update in one kernel: the gradient never leaves the multiprocessor. The
// product's sums go through shared memory, so that a warp reads and writes whole rows of weights.
#include "kernels/cuda/fused.h"
#include "kernels/cuda/persistent.h"
#include "kernels/cuda/rule_step.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/tile_product.cuh"

#include <cuda_bf16.h>

namespace norn::cuda {
namespace {

constexpr int kClusterRows = 1;
constexpr int kClusterCols = 2;  // two tiles of columns share the deltas
constexpr int kStages = 6;
using Pipeline =
    TilePipeline<hopper::Major::mn, hopper::Major::mn, kClusterRows, kClusterCols, kStages>;

// Each warp's 16 x 128 sums of a half tile go to shared memory 8 rows at a time.
constexpr int kSlabRows = 8;
constexpr int kSlabStride = kTile + 8;  // floats; 8 more: rows begin in different banks
constexpr int kSlabBytes = kSlabRows * kSlabStride * int(sizeof(float));
constexpr int kWarpRows = 32;  // rows of a tile that a warp updates
constexpr int kAhead = 4;      // batches that are asked for before their turn
constexpr int kSharedBytes =
    Pipeline::kStagesBytes + 8 * kSlabBytes + int(sizeof(Pipeline::Barriers));

struct Weights {
  MatrixView<float> w;
  MatrixView<float> slot0;
  MatrixView<float> slot1;
  MatrixView<Bfloat16> rounded;
};

template <class Rule>
struct UpdateTask {
  TileOperands operands;
  Weights weights;
  float scale;
  UpdateStep step;
  Rule rule;
};

/// Some rows' weights and state, 4 columns a lane.
template <int kSlots>
struct RowBatch {
  static constexpr int kRows = kSlots == 2 ? 2 : 4;
  float4 w[kRows];
  float4 slot0[kSlots > 0 ? kRows : 1];
  float4 slot1[kSlots > 1 ? kRows : 1];
};

/// One warp's part of a tile.
template <class Rule>
class WarpUpdate {
 public:
  using Batch = RowBatch<Rule::slots>;
  static constexpr int kBatches = kWarpRows / Batch::kRows;

  __device__ WarpUpdate(const UpdateTask<Rule>& task, TilePlace place, int warp)
      : task_(task), row_(place.row + 16 * warp), col_(place.col + 4 * int(threadIdx.x % 32)) {}

  __device__ void load(int batch, Batch& rows) const {
    const Weights& m = task_.weights;
#pragma unroll
    for (int r = 0; r < Batch::kRows; ++r) {
      const Index row = row_of(batch, r);
      const bool inside = row < m.w.rows && col_ < m.w.cols;
      rows.w[r] = read(m.w, row, inside);
      if constexpr (Rule::slots > 0) rows.slot0[r] = read(m.slot0, row, inside);
      if constexpr (Rule::slots > 1) rows.slot1[r] = read(m.slot1, row, inside);
    }
  }

  /// Asks for a batch's lines to be brought to L2, one line a lane.
  __device__ void prefetch(int batch) const {
    constexpr int kArrays = 1 + Rule::slots;
    constexpr int kLines = kArrays * Batch::kRows * 4;
    const int lane = int(threadIdx.x % 32);
    const Weights& m = task_.weights;
#pragma unroll
    for (int i = lane; i < kLines; i += 32) {
      const Index row = row_of(batch, i / 4 / kArrays);
      const int array = i / 4 % kArrays;
      const Index col = col_ - 4 * lane + i % 4 * 32;
      if (batch >= kBatches || row >= m.w.rows || col >= m.w.cols) continue;
      const MatrixView<float>& of = array == 0 ? m.w : (array == 1 ? m.slot0 : m.slot1);
      asm volatile("prefetch.global.L2 [%0];" ::"l"(of.row(row) + col));
    }
  }

  __device__ void apply(int batch, const float* slab, Batch& rows) const {
#pragma unroll
    for (int r = 0; r < Batch::kRows; ++r) {
      const int in_slab = (batch * Batch::kRows + r) % kSlabRows;
      const float4 g =
          reinterpret_cast<const float4*>(slab + in_slab * kSlabStride)[threadIdx.x % 32];
      const float gradient[4] = {task_.scale * g.x, task_.scale * g.y, task_.scale * g.z,
                                 task_.scale * g.w};
      float4 none = {0.0f, 0.0f, 0.0f, 0.0f};
      float4& s0 = Rule::slots > 0 ? rows.slot0[Rule::slots > 0 ? r : 0] : none;
      float4& s1 = Rule::slots > 1 ? rows.slot1[Rule::slots > 1 ? r : 0] : none;
      float4& w = rows.w[r];
      float weight[4] = {w.x, w.y, w.z, w.w};
      float first[4] = {s0.x, s0.y, s0.z, s0.w};
      float second[4] = {s1.x, s1.y, s1.z, s1.w};
      step_some(task_.rule, task_.step, weight, gradient, first, second);
      w = {weight[0], weight[1], weight[2], weight[3]};
      s0 = {first[0], first[1], first[2], first[3]};
      s1 = {second[0], second[1], second[2], second[3]};
      store(row_of(batch, r), w, s0, s1);
    }
  }

 private:
  __device__ Index row_of(int batch, int r) const {
    const int i = batch * Batch::kRows + r;
    return row_ + (i / 16) * 64 + i % 16;
  }
  __device__ float4 read(const MatrixView<float>& m, Index row, bool inside) const {
    return inside ? __ldcs(reinterpret_cast<const float4*>(m.row(row) + col_))
                  : float4{0.0f, 0.0f, 0.0f, 0.0f};
  }
  __device__ void store(Index row, const float4& w, const float4& s0, const float4& s1) const {
    const Weights& m = task_.weights;
    if (row >= m.w.rows || col_ >= m.w.cols) return;
    __stcs(reinterpret_cast<float4*>(m.w.row(row) + col_), w);
    if constexpr (Rule::slots > 0) __stcs(reinterpret_cast<float4*>(m.slot0.row(row) + col_), s0);
    if constexpr (Rule::slots > 1) __stcs(reinterpret_cast<float4*>(m.slot1.row(row) + col_), s1);
    if (m.rounded.data == nullptr) return;
    const __nv_bfloat162 low = __floats2bfloat162_rn(w.x, w.y);
    const __nv_bfloat162 high = __floats2bfloat162_rn(w.z, w.w);
    uint2 both;
    both.x = *reinterpret_cast<const unsigned*>(&low);
    both.y = *reinterpret_cast<const unsigned*>(&high);
    __stcs(reinterpret_cast<uint2*>(m.rounded.row(row) + col_), both);
  }

  const UpdateTask<Rule>& task_;
  Index row_;
  Index col_;
};

/// Rows 8 * (kPart % 2) and 7 more of the warp's part of half kPart / 2 of the tile.
template <int kPart>
__device__ void write_slab(const float (&sum)[2][64], float* slab) {
  const int lane = int(threadIdx.x % 32);
  float2* to = reinterpret_cast<float2*>(slab + lane / 4 * kSlabStride + lane % 4 * 2);
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j)
    to[4 * j] = {sum[kPart / 2][4 * j + 2 * (kPart % 2)],
                 sum[kPart / 2][4 * j + 2 * (kPart % 2) + 1]};
}

/// A part that is known at run time only: sums are in registers, which cannot be indexed.
__device__ void write_slab(int part, const float (&sum)[2][64], float* slab) {
  __syncwarp();
  if (part == 0) write_slab<0>(sum, slab);
  if (part == 1) write_slab<1>(sum, slab);
  if (part == 2) write_slab<2>(sum, slab);
  if (part == 3) write_slab<3>(sum, slab);
  __syncwarp();
}

template <class Rule>
__device__ void consume(const UpdateTask<Rule>& task, Pipeline& pipeline, int consumer,
                        float* slabs) {
  using Batch = typename WarpUpdate<Rule>::Batch;
  const int warp = int(threadIdx.x / 32) % 4;
  float* slab = slabs + (4 * consumer + warp) * (kSlabBytes / int(sizeof(float)));
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < task.operands.order.count();
       tile += pipeline.stride(), ++number) {
    if (number % kConsumers != consumer) continue;
    const WarpUpdate<Rule> update(task, pipeline.place(tile), warp);
    float sum[2][64] = {};
    for (int batch = 0; batch < kAhead; ++batch) update.prefetch(batch);
    pipeline.multiply(number, consumer, sum);
    Batch even;
    Batch odd;
    update.load(0, even);  // while the last products are under way
    pipeline.finish(sum);
#pragma unroll 1
    for (int batch = 0; batch < WarpUpdate<Rule>::kBatches; batch += 2) {
      update.prefetch(batch + kAhead);
      update.prefetch(batch + kAhead + 1);
      update.load(batch + 1, odd);
      if (batch * Batch::kRows % kSlabRows == 0)
        write_slab(batch * Batch::kRows / kSlabRows, sum, slab);
      update.apply(batch, slab, even);
      if (batch + 2 < WarpUpdate<Rule>::kBatches) update.load(batch + 2, even);
      update.apply(batch + 1, slab, odd);
    }
  }
}

template <class Rule>
__global__ void __cluster_dims__(Pipeline::kBlocks) __launch_bounds__(kTileThreads, 1)
    fused_update_kernel(const __grid_constant__ UpdateTask<Rule> task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzleAlignment) unsigned char shared[];
  Pipeline::Barriers& barriers =
      *reinterpret_cast<Pipeline::Barriers*>(shared + Pipeline::kStagesBytes + 8 * kSlabBytes);
  Pipeline pipeline(task.operands, barriers, hopper::shared_address(shared));
  if (threadIdx.x == 0) pipeline.init();
  __syncthreads();
  hopper::cluster_sync();
  const int group = warpgroup();
  if (group == 0) {
    hopper::give_registers<40>();
    if (threadIdx.x < 32) pipeline.produce();
  } else {
    hopper::take_registers<232>();
    if (group == 2) Pipeline::let_first_begin();
    consume(task, pipeline, group - 1, reinterpret_cast<float*>(shared + Pipeline::kStagesBytes));
  }
  hopper::cluster_sync();  // others may still copy into this block or arrive at its barriers
#endif
}

bool suits_float4(const MatrixView<float>& m) {
  return reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 && m.stride % 4 == 0;
}

template <class Rule>
bool supports(const Weights& m) {
  return m.w.cols % 4 == 0 && suits_float4(m.w) && (Rule::slots < 1 || suits_float4(m.slot0)) &&
         (Rule::slots < 2 || suits_float4(m.slot1)) &&
         (m.rounded.data == nullptr ||
          (reinterpret_cast<std::uintptr_t>(m.rounded.data) % 8 == 0 && m.rounded.stride % 4 == 0));
}

template <class Rule>
bool launch(const Stream& stream, const UpdateTask<Rule>& task) {
  if (!supports<Rule>(task.weights)) return false;
  static const int resident =
      resident_clusters(fused_update_kernel<Rule>, kTileThreads, Pipeline::kBlocks, kSharedBytes);
  const std::int64_t clusters = std::min<std::int64_t>(resident, task.operands.order.count());
  fused_update_kernel<Rule>
      <<<unsigned(clusters * Pipeline::kBlocks), kTileThreads, kSharedBytes, stream.stream>>>(task);
  check_launch("fused_update_kernel");
  return true;
}

}  // namespace

bool update_bfloat16(const Stream& stream, const UpdateRule& rule, const UpdateStep& step,
                     MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x, float scale,
                     MatrixView<float> w, std::array<MatrixView<float>, 2> slot,
                     MatrixView<Bfloat16> rounded) {
  constexpr Index kSmallest = 64;
  if (w.rows < kSmallest || w.cols < kSmallest || x.rows < kSmallest) return false;
  if (!can_map(delta) || !can_map(x)) return false;
  TileOperands operands;
  operands.a = map_boxes(delta);
  operands.b = map_boxes(x);
  const auto clusters = [](Index size, int blocks) {
    return (size + kTile * blocks - 1) / (kTile * blocks);
  };
  TileOrder& order = operands.order;
  order.inner = order.group = int(clusters(w.cols, kClusterCols));
  order.outer = int(clusters(w.rows, kClusterRows));
  operands.steps = int((x.rows + kTileDepth - 1) / kTileDepth);
  return std::visit(
      [&](const auto& r) {
        return launch(stream, UpdateTask<std::remove_cvref_t<decltype(r)>>{
                                  operands, {w, slot[0], slot[1], rounded}, scale, step, r});
      },
      rule);
}

}  // namespace norn::cuda
