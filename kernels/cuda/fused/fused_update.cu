// SPDX-License-Identifier: Apache-2.0
// Weight gradient and update in one kernel: the gradient never leaves the multiprocessor. The
// product's sums go through shared memory, so that a warp reads and writes whole rows of weights.
#include "kernels/cuda/fused/fused.h"
#include "kernels/cuda/fused/weight_ring.cuh"
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/update/rule_step.cuh"

#include <algorithm>

namespace norn::cuda {
namespace {

/// Two tiles of columns share the deltas: the fewest operands for a large matrix.
struct LargeTile {
  static constexpr int kRows = 128;
  static constexpr int kClusterRows = 1;
  static constexpr int kClusterCols = 2;
};
/// Two tiles of rows share the activations: half the work, for matrices of few tiles, where the
/// multiprocessors with one more tile are waited for.
struct SmallTile {
  static constexpr int kRows = 64;
  static constexpr int kClusterRows = 2;
  static constexpr int kClusterCols = 1;
};
constexpr int kBlocks = 2;
constexpr Index kSmallest = 64;  // columns of weights, examples

// A part of a consumer's sums, 8 rows of each warp, in shared memory.
constexpr int kStagedRows = 4 * kBatchRows;
constexpr int kStagedStride = kTile + 8;  // floats; 8 more: rows begin in different banks

template <class Rule>
struct UpdateTask {
  TileOperands operands;
  WeightMaps<Rule::slots> maps;
  MatrixView<Bfloat16> high;
  MatrixView<std::int16_t> low;
  MatrixView<float> slot[kHeldSlots<Rule>];
  float scale;
  UpdateStep step;
  Rule rule;
};

/// Shared memory: the less state there is to bring, the more of the operands.
template <class Tile, class Rule>
struct SharedMemory {
  static constexpr bool kIsSmall = Tile::kRows == 64;
  static constexpr int kStages = (Rule::slots == 0 ? 5 : 4) + (kIsSmall ? 1 : 0);
  // For each consumer.
  static constexpr int kRingBytes = Rule::slots == 0 ? 12288 : (kIsSmall ? 36864 : 24576);
  using Pipeline = TilePipeline<hopper::Major::mn, hopper::Major::mn, Tile::kClusterRows,
                                Tile::kClusterCols, kStages, Bfloat16, Tile::kRows / 64>;
  using Ring = WeightRing<Tile::kRows, Rule::slots, kRingBytes>;
  unsigned char stages[Pipeline::kStagesBytes];
  unsigned char ring[kConsumers][Ring::kBytes];
  float staged[kConsumers][kStagedRows * kStagedStride];
  typename Pipeline::Barriers pipeline;
  typename Ring::Barriers weights[kConsumers];
};
template <class Tile, class Rule>
using PipelineOf = typename SharedMemory<Tile, Rule>::Pipeline;
template <class Tile, class Rule>
using RingOf = typename SharedMemory<Tile, Rule>::Ring;

/// Four columns of a tile's rows in one of the arrays.
template <typename T>
class LaneRows {
 public:
  LaneRows() = default;
  __device__ LaneRows(const MatrixView<T>& m, TilePlace place)
      : first_(reinterpret_cast<char*>(m.row(place.row) + place.col + 4 * int(threadIdx.x % 32))),
        stride_(int(m.stride) * int(sizeof(T))) {}
  template <typename Four>
  __device__ void store(int row, const Four& four) const {
    static_assert(sizeof(Four) == 4 * sizeof(T));
    __stcs(reinterpret_cast<Four*>(first_ + std::int64_t(row) * stride_), four);
  }

 private:
  char* first_;
  int stride_;  ///< bytes
};

/// One warp's part of the batches of a tile.
template <class Tile, class Rule>
class WarpUpdate {
 public:
  using Ring = RingOf<Tile, Rule>;

  __device__ WarpUpdate(const UpdateTask<Rule>& task, TilePlace place)
      : task_(task),
        rows_(place.col + 4 * int(threadIdx.x % 32) < task.high.cols
                  ? int(min(task.high.rows - place.row, Index(Tile::kRows)))
                  : 0),
        high_(task.high, place),
        low_(task.low, place) {
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) slot_[s] = LaneRows<float>(task.slot[s], place);
  }

  /// Two rows of the ring's next batch, which is the tile's `batch`-th.
  __device__ void apply(int batch, Ring& ring, const float* staged) const {
    const int first = 2 * (int(threadIdx.x / 32) % 4);
    const float* gradients = staged + (batch % 4 * kBatchRows + first) * kStagedStride;
    float w[8], g[8], state[kHeldSlots<Rule>][8] = {};
    ring.wait();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      unpack(ring.read_weights(first + i), w + 4 * i);
#pragma unroll
      for (int s = 0; s < Rule::slots; ++s) unpack(ring.read_state(s, first + i), state[s] + 4 * i);
      unpack(reinterpret_cast<const float4*>(gradients + i * kStagedStride)[threadIdx.x % 32],
             g + 4 * i);
    }
    ring.release();
#pragma unroll
    for (int i = 0; i < 8; ++i) g[i] *= task_.scale;
    clip_some(task_.step, g);
    step_some(task_.rule, task_.step, w, g, state);
#pragma unroll
    for (int i = 0; i < 2; ++i) store(batch_row(batch) + first + i, 4 * i, w, state);
  }

 private:
  static __device__ void unpack(const float4& from, float* to) {
    to[0] = from.x;
    to[1] = from.y;
    to[2] = from.z;
    to[3] = from.w;
  }
  static __device__ float4 packed(const float* x) {
    return {x[0], x[1], x[2], x[3]};
  }
  /// Elements [from, from + 4) of each.
  __device__ void store(int row, int from, const float (&weights)[8],
                        const float (&state)[kHeldSlots<Rule>][8]) const {
    if (row >= rows_) return;
    const float* w = weights + from;
    uint2 high, low;
    split_pair(w[0], w[1], high.x, low.x);
    split_pair(w[2], w[3], high.y, low.y);
    high_.store(row, high);
    low_.store(row, low);
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) slot_[s].store(row, packed(state[s] + from));
  }

  const UpdateTask<Rule>& task_;
  int rows_;  ///< of the tile that are inside the matrix where this lane's columns are
  LaneRows<Bfloat16> high_;
  LaneRows<std::int16_t> low_;
  LaneRows<float> slot_[kHeldSlots<Rule>];
};

/// The warp's rows of part kPart of the sums: 8 * (kPart % 2) and 7 more of half kPart / 2.
template <int kPart, int kHalves>
__device__ void write_staged(const float (&sum)[kHalves][64], float* staged) {
  const int lane = int(threadIdx.x % 32);
  const int row = int(threadIdx.x / 32) % 4 * kBatchRows + lane / 4;
  float2* to = reinterpret_cast<float2*>(staged + row * kStagedStride + lane % 4 * 2);
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j)
    to[4 * j] = {sum[kPart / 2][4 * j + 2 * (kPart % 2)],
                 sum[kPart / 2][4 * j + 2 * (kPart % 2) + 1]};
}

/// A part that is known at run time only: sums are in registers, which cannot be indexed.
template <int kHalves>
__device__ void write_staged(int part, const float (&sum)[kHalves][64], float* staged) {
  if (part == 0) write_staged<0>(sum, staged);
  if (part == 1) write_staged<1>(sum, staged);
  if constexpr (kHalves == 2) {
    if (part == 2) write_staged<2>(sum, staged);
    if (part == 3) write_staged<3>(sum, staged);
  }
}

template <class Tile, class Rule>
__device__ void consume(const UpdateTask<Rule>& task, PipelineOf<Tile, Rule>& pipeline,
                        RingOf<Tile, Rule>& ring, int consumer, float* staged) {
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < task.operands.order.count();
       tile += pipeline.stride(), ++number) {
    if (number % kConsumers != consumer) continue;
    const WarpUpdate<Tile, Rule> update(task, pipeline.place(tile));
    float sum[Tile::kRows / 64][64] = {};
    pipeline.multiply(number, consumer, sum);
    pipeline.finish(sum);
#pragma unroll 1
    for (int part = 0; part < Tile::kRows / kStagedRows; ++part) {
      hopper::named_sync(kConsumerBarrier + consumer, kConsumerThreads);
      write_staged(part, sum, staged);
      hopper::named_sync(kConsumerBarrier + consumer, kConsumerThreads);
#pragma unroll 1
      for (int batch = 4 * part; batch < 4 * part + 4; ++batch) update.apply(batch, ring, staged);
    }
  }
}

/// By one warp: the weights of a consumer's tiles.
template <class Tile, class Rule>
__device__ void bring_weights(const UpdateTask<Rule>& task, const PipelineOf<Tile, Rule>& pipeline,
                              RingOf<Tile, Rule>& ring, int consumer) {
  for (std::int64_t tile = pipeline.first() + consumer * pipeline.stride();
       tile < task.operands.order.count(); tile += kConsumers * pipeline.stride())
    ring.produce(task.maps, pipeline.place(tile));
}

template <class Tile, class Rule>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__(kTileThreads, 1)
    fused_update_kernel(const __grid_constant__ UpdateTask<Rule> task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzleAlignment) unsigned char shared[];
  auto& memory = *reinterpret_cast<SharedMemory<Tile, Rule>*>(shared);
  PipelineOf<Tile, Rule> pipeline(task.operands, memory.pipeline,
                                  hopper::shared_address(memory.stages));
  using Ring = RingOf<Tile, Rule>;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kConsumers; ++i) Ring(memory.weights[i], memory.ring[i]).init();
    pipeline.init();
  }
  __syncthreads();
  hopper::cluster_sync();
  const int group = warpgroup();
  if (group == 0) {
    hopper::give_registers<40>();
    const int warp = __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 32, 0);
    if (warp == 0) {
      pipeline.produce();
    } else if (warp <= kConsumers) {
      Ring ring(memory.weights[warp - 1], memory.ring[warp - 1]);
      bring_weights<Tile>(task, pipeline, ring, warp - 1);
    }
  } else {
    hopper::take_registers<232>();
    const int consumer = group - 1;
    if (consumer == 1) pipeline.let_first_begin();
    Ring ring(memory.weights[consumer], memory.ring[consumer]);
    consume<Tile>(task, pipeline, ring, consumer, memory.staged[consumer]);
  }
  hopper::cluster_sync();  // others may still copy into this block or arrive at its barriers
#endif
}

/// Whether fours of the matrix are aligned and a row's size in bytes is an int.
template <typename T>
bool suits_fours(const MatrixView<T>& m) {
  return reinterpret_cast<std::uintptr_t>(m.data) % (4 * sizeof(T)) == 0 && m.stride % 4 == 0 &&
         m.stride < (Index(1) << 29);
}

template <class Rule>
bool supports(const UpdateTask<Rule>& task) {
  const auto suits = [](const auto& m) { return can_map(m) && suits_fours(m); };
  bool all = suits(task.high) && suits(task.low) && task.high.cols % 4 == 0;
  for (int s = 0; s < Rule::slots; ++s) all = all && suits(task.slot[s]);
  return all;
}

template <class Tile>
TileOrder order_of(const MatrixView<Bfloat16>& w) {
  const auto clusters = [](Index size, int tile) { return int((size + tile - 1) / tile); };
  TileOrder order;
  order.inner = order.group = clusters(w.cols, kTile * Tile::kClusterCols);
  order.outer = clusters(w.rows, Tile::kRows * Tile::kClusterRows);
  return order;
}

template <class Tile, class Rule>
int resident() {
  static const int clusters = resident_clusters(fused_update_kernel<Tile, Rule>, kTileThreads,
                                                kBlocks, int(sizeof(SharedMemory<Tile, Rule>)));
  return clusters;
}

template <class Tile, class Rule>
void launch_tiles(const Stream& stream, UpdateTask<Rule> task) {
  task.operands.order = order_of<Tile>(task.high);
  // Tiles are dealt out to all clusters: those that have to wait for room would double the time.
  const int free = stream.left_free ? *stream.left_free : 0;
  const std::int64_t clusters = std::min<std::int64_t>(
      std::max(1, resident<Tile, Rule>() - free / kBlocks), task.operands.order.count());
  fused_update_kernel<Tile, Rule><<<unsigned(clusters * kBlocks), kTileThreads,
                                    int(sizeof(SharedMemory<Tile, Rule>)), stream.stream>>>(task);
  check_launch("fused_update_kernel");
}

template <class Rule>
bool launch(const Stream& stream, UpdateTask<Rule> task) {
  if (!supports(task)) return false;
  task.maps.high = map_rows(task.high, kBatchRows, kTile);
  task.maps.low = map_rows(task.low, kBatchRows, kTile);
  for (int s = 0; s < Rule::slots; ++s)
    task.maps.slot[s] = map_rows(task.slot[s], kBatchRows, kTile);
  // Small tiles need more copies of operands: products of many examples are bound by these, and
  // there is little to gain where an update reads only weights.
  // Four rounds of them last as long as two of large ones.
  constexpr int kMostSteps = 1024 / kTileDepth;
  constexpr int kFewRounds = 3;
  if constexpr (Rule::slots > 0) {
    const int free = stream.left_free ? *stream.left_free : 0;
    if (task.operands.steps <= kMostSteps &&
        order_of<SmallTile>(task.high).count() <=
            kFewRounds * (resident<SmallTile, Rule>() - free / kBlocks)) {
      launch_tiles<SmallTile>(stream, task);
      return true;
    }
  }
  launch_tiles<LargeTile>(stream, task);
  return true;
}

}  // namespace

bool update_bfloat16(const Stream& stream, const UpdateRule& rule, const UpdateStep& step,
                     MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x, float scale,
                     WeightView w, SlotViews slot) {
  if (!w.is_split() || w.cols() < kSmallest || x.rows < kSmallest)
    return false;  // any units: a rank may own few
  if (!can_map(delta) || !can_map(x)) return false;
  TileOperands operands;
  operands.a = map_boxes(delta);
  operands.b = map_boxes(x);
  operands.steps = int((x.rows + kTileDepth - 1) / kTileDepth);
  return std::visit(
      [&](const auto& r) {
        using Rule = std::remove_cvref_t<decltype(r)>;
        UpdateTask<Rule> task{operands, {}, w.high, w.low, {}, scale, step, r};
        std::copy_n(slot.begin(), kHeldSlots<Rule>, task.slot);
        return launch(stream, task);
      },
      rule);
}

}  // namespace norn::cuda
