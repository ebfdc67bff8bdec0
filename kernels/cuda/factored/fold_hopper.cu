// SPDX-License-Identifier: Apache-2.0
// V += V (U - 1) in place by products of warpgroups. A pass computes 256 columns, or 128 where
// fewer are computed that way. Each of two multiplying warpgroups, or three with narrow passes,
// takes 64 rows at a time, whose operands go from global memory to registers. U - 1 comes through a
// ring in shared memory (fold_ring.cuh), where that of up to 128 columns stays. Rows change when
// all their sums are known: those of all passes but the last wait in global memory. A row is one
// warp's alone and its sums run along the width in one order.
#include "kernels/cuda/factored/fold_ring.cuh"
#include "kernels/cuda/factored/fours.cuh"
#include "kernels/cuda/hopper/persistent.h"

namespace norn::cuda {
namespace fold {
namespace {

// Steps that a warpgroup is ahead of the next, so that some multiply while others change rows.
constexpr int kLead = 2;

/// What a multiplying thread loads next.
struct Place {
  int tile, pass, step;
};

__device__ __forceinline__ void advance(const Work& work, Place& place) {
  if (++place.step < work.u.steps) return;
  place.step = 0;
  if (++place.pass < work.u.passes) return;
  place.pass = 0;
  place.tile += int(gridDim.x);
}

/// The first of a thread's two rows of a tile, which are 8 apart.
template <int kCols>
__device__ __forceinline__ Index thread_row(int tile) {
  const int in_tile = int(threadIdx.x) / kWarp * 16 + int(threadIdx.x) % kWarp / 4;
  return Index(tile) * Tile<kCols>::kRows + in_tile;
}
/// Which of the four threads that share them.
__device__ __forceinline__ int member() {
  return int(threadIdx.x) % 4;
}

/// The thread's operands of half a step: four in each of its rows.
template <int kCols>
__device__ __forceinline__ void load_half(const Work& work, const Place& place, int half,
                                          float4 (&v)[2]) {
  const MatrixView<float>& rows = work.v.rows;
  const Index row = thread_row<kCols>(place.tile);
  const Index k = Index(place.step) * kDepth + half * 16 + member() * 4;
  if (place.tile < work.whole.tiles && place.step < work.whole.steps) {
    const float* from = rows.row(row) + k;
    v[0] = load_four<true>(from, 4);
    v[1] = load_four<true>(from + 8 * rows.stride, 4);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int count = row + 8 * i < rows.rows ? present(rows.cols, k) : 0;
      v[i] = load_four<false>(rows.row(row + 8 * i) + k, count);
    }
  }
}

template <int kCols>
__device__ __forceinline__ void load_last(const Work& work, int tile, float (&last)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Index row = thread_row<kCols>(tile) + 8 * i;
    last[i] = row < work.v.rows.rows ? work.v.last[row] : 0.0f;
  }
}

__device__ __forceinline__ void multiply_add(float (&sums)[64], const std::uint32_t (&v)[4],
                                             std::uint64_t u) {
  hopper::multiply_add_64x128x8(sums, v, u);
}
__device__ __forceinline__ void multiply_add(float (&sums)[128], const std::uint32_t (&v)[4],
                                             std::uint64_t u) {
  hopper::multiply_add_64x256x8(sums, v, u);
}

/// The terms of half a step: of two products' depth, three products for each.
template <int kCount>
__device__ __forceinline__ void multiply_half(const float4 (&v)[2], std::uint64_t high,
                                              std::uint64_t low, int half, float (&sums)[kCount]) {
  std::uint32_t high_v[2][4], low_v[2][4];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const Split x = split(part_of(v[i % 2], i / 2));
    high_v[i / 4][i % 4] = x.high;
    low_v[i / 4][i % 4] = x.low;
  }
  hopper::product_fence();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t run = std::uint64_t(2 * half + i) * hopper::kNextK<hopper::Major::k>;
    multiply_add(sums, low_v[i], high + run);
    multiply_add(sums, high_v[i], low + run);
    multiply_add(sums, high_v[i], high + run);
  }
  hopper::product_commit();
}

/// The sums of products with the last column of U - 1.
__device__ __forceinline__ void add_dots(const float4 (&v)[2], const float* column,
                                         float (&dots)[2]) {
  const float4 u = *reinterpret_cast<const float4*>(column);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    dots[i / 4] = fmaf(part_of(v[i / 4], i % 4), part_of(u, i % 4), dots[i / 4]);
}

/// Sums begin with what comes from the last elements of rows.
template <int kCount>
__device__ __forceinline__ void begin_sums(const Work& work, int pass, const float (&last)[2],
                                           float (&sums)[kCount]) {
  constexpr int kCols = 2 * kCount;
  const float* row = work.u.row + pass * kCols + member() * 4;
#pragma unroll
  for (int m = 0; m < kCols / 16; ++m) {
    const float4 u = *reinterpret_cast<const float4*>(row + 16 * m);
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[8 * m + i] = last[i / 2 % 2] * part_of(u, i / 4 * 2 + i % 2);
  }
}

/// The state of a multiplying thread between tiles.
template <int kCols>
struct Multiplier {
  const Work& work;
  Shared<kCols>& shared;
  SlotOf<kCols> slot;
  Place next;
  float4 v[2][2];  // operands of the next step: halves, rows
  int until_lead;  // steps after which the next warpgroup may begin; of the last one 0
};

template <int kCols>
__device__ __forceinline__ void release(Multiplier<kCols>& self, const SlotOf<kCols>& slot) {
  if (self.work.u.stays || threadIdx.x % kWarp != 0) return;
  hopper::barrier_arrive(hopper::shared_address(&self.shared.empty[slot.index]));
  hopper::barrier_arrive(hopper::shared_address(&self.shared.empty[slot.next().index]));
}

/// The sums of a pass. Half a step's products are under way while operands of the next half are
/// made; those in use may change when the half before the last one is done.
template <int kCols>
__device__ __forceinline__ void sum_pass(Multiplier<kCols>& self, int pass,
                                         float (&sums)[kCols / 2], float (&dots)[2]) {
  const Work& work = self.work;
  const float* column = work.u.column + member() * 4;
  SlotOf<kCols> before;
#pragma unroll 1
  for (int step = 0; step < work.u.steps; ++step) {
    const SlotOf<kCols> low_slot = self.slot.next();
    wait_full(self.shared, self.slot);
    wait_full(self.shared, low_slot);
    const std::uint64_t high = hopper::operand<hopper::Major::k>(
        hopper::shared_address(self.shared.slot[self.slot.index]));
    const std::uint64_t low =
        hopper::operand<hopper::Major::k>(hopper::shared_address(self.shared.slot[low_slot.index]));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      hopper::product_wait<1>();
      if (half == 1 && step > 0) release(self, before);
      multiply_half(self.v[half], high, low, half, sums);
      if (pass == 0) add_dots(self.v[half], column + step * kDepth + half * 16, dots);
      load_half<kCols>(work, self.next, half, self.v[half]);
    }
    advance(work, self.next);
    if (--self.until_lead == 0)
      hopper::named_arrive(kLeadBarrier + int(threadIdx.x) / kConsumerThreads,
                           2 * kConsumerThreads);
    before = self.slot;
    self.slot = low_slot.next();
  }
  hopper::product_wait<0>();
  hopper::pin(sums);
  release(self, before);
}

template <int kCount>
__device__ __forceinline__ void hold(const float (&sums)[kCount], float4* to) {
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i)
    to[i * Tile<2 * kCount>::kMultipliers] =
        make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
}

template <int kCount>
__device__ __forceinline__ void take(const float4* from, float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 4; ++i) {
    const float4 x = from[i * Tile<2 * kCount>::kMultipliers];
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[4 * i + j] = part_of(x, j);
  }
}

/// Adds sums to the thread's rows of v, four at a time. A load waits for the stores before it, so
/// some are loaded together.
template <int kCols, bool kWhole>
__device__ __forceinline__ void add_sums(const MatrixView<float>& v, int tile, int pass,
                                         const float (&sums)[kCols / 2]) {
  constexpr int kOfRow = kCols / 16, kFours = 2 * kOfRow, kTogether = kWhole ? 8 : 4;
  const Index column = Index(pass) * kCols + member() * 4;
  float* row[2];
  int count[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Index r = thread_row<kCols>(tile) + 8 * i;
    row[i] = v.row(r) + column;
    count[i] = r < v.rows ? int(min(v.cols - column, Index(kCols))) : 0;
  }
#pragma unroll
  for (int begin = 0; begin < kFours; begin += kTogether) {
    float4 x[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int of = (begin + i) / kOfRow, at = (begin + i) % kOfRow * 16;
      x[i] = load_four<kWhole>(row[of] + at, count[of] - at);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int of = (begin + i) / kOfRow, at = (begin + i) % kOfRow * 16;
      const float* sum = sums + at / 2 + 2 * of;
      const float4 y =
          make_float4(x[i].x + sum[0], x[i].y + sum[1], x[i].z + sum[4], x[i].w + sum[5]);
      store_four<kWhole>(row[of] + at, y, count[of] - at);
    }
  }
}

template <int kCols>
__device__ __forceinline__ void add_to_rows(const Work& work, int tile, int pass,
                                            const float (&sums)[kCols / 2]) {
  const MatrixView<float>& v = work.v.rows;
  if (tile < work.whole.tiles && pass < work.whole.passes)
    add_sums<kCols, true>(v, tile, pass, sums);
  else
    add_sums<kCols, false>(v, tile, pass, sums);
}

/// The last elements of the thread's rows.
template <int kCols>
__device__ __forceinline__ void set_last(const Work& work, int tile, const float (&last)[2],
                                         const float (&dots)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float sum = dots[i];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    const Index row = thread_row<kCols>(tile) + 8 * i;
    if (member() == 0 && row < work.v.rows.rows)
      work.v.last[row] = last[i] + fmaf(last[i], *work.u.corner, sum);
  }
}

/// Where the thread's sums of a pass wait.
template <int kCols>
__device__ __forceinline__ float4* held(const Work& work, int pass) {
  return work.held + (Index(blockIdx.x) * (work.u.passes - 1) + pass) * (Tile<kCols>::kHeld / 4) +
         int(threadIdx.x);
}

/// By the warpgroups that multiply.
template <int kCols>
__device__ __forceinline__ void fold_tiles(const Work& work, Shared<kCols>& shared, int group) {
  const int passes = work.u.passes;
  const bool leads = group + 1 < Tile<kCols>::kGroups;
  int tile = int(blockIdx.x);
  Multiplier<kCols> self{work, shared, {}, {tile, 0, 0}, {}, leads ? min(kLead, work.u.steps) : 0};
  load_half<kCols>(work, self.next, 0, self.v[0]);
  load_half<kCols>(work, self.next, 1, self.v[1]);
  advance(work, self.next);
  float last[2];
  load_last<kCols>(work, tile, last);
  if (group > 0) hopper::named_sync(kLeadBarrier + group - 1, 2 * kConsumerThreads);
#pragma unroll 1
  for (; tile < work.tiles; tile += int(gridDim.x)) {
    float sums[kCols / 2];
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
      float dots[2] = {0.0f, 0.0f};
      begin_sums(work, pass, last, sums);
      sum_pass(self, pass, sums, dots);
      if (pass == 0) set_last<kCols>(work, tile, last, dots);
      if (pass + 1 < passes) hold(sums, held<kCols>(work, pass));
    }
    if (work.u.stays) self.slot = {};
    load_last<kCols>(work, tile + int(gridDim.x), last);
    // Nothing of these rows is read any more but by the thread that changes it.
#pragma unroll 1
    for (int pass = passes - 1; pass >= 0; --pass) {
      if (pass + 1 < passes) take(held<kCols>(work, pass), sums);
      add_to_rows<kCols>(work, tile, pass, sums);
    }
  }
}

template <int kCols>
__global__ void __launch_bounds__(Tile<kCols>::kThreads, 1)
    fold_kernel(const double* needed, const __grid_constant__ Work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (*needed == 0.0) return;
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  Shared<kCols>& shared = *reinterpret_cast<Shared<kCols>*>(bytes);
  if (threadIdx.x == 0) init_ring(shared);
  __syncthreads();
  const int group = warpgroup();
  if (group == Tile<kCols>::kGroups) {
    hopper::give_registers<Tile<kCols>::kProducerRegisters>();
    if (int(threadIdx.x) / kWarp % 4 == 0)
      copy_blocks(work, shared);
    else
      make_low_parts(work, shared);
  } else {
    hopper::take_registers<Tile<kCols>::kMultiplierRegisters>();
    fold_tiles(work, shared, group);
  }
#endif
}

/// How U - 1 lies in memory.
struct Extent {
  Index cols, passes, steps;

  Index blocks() const { return passes * steps * cols * kDepth; }
  Index floats() const { return blocks() + steps * kDepth + passes * cols + 4; }
  Index held() const { return cols == 128 ? Tile<128>::kHeld : Tile<256>::kHeld; }
};

/// With the fewest columns computed, wide passes where both have as many.
Extent extent_of(Index d) {
  const Index narrow = std::max<Index>(1, (d + 127) / 128);
  const Index steps = std::max<Index>(1, (d + kDepth - 1) / kDepth);
  if (narrow % 2 == 1) return {128, narrow, steps};
  return {256, narrow / 2, steps};
}

Difference difference_in(float* workspace, const Extent& extent) {
  float* const column = workspace + extent.blocks();
  float* const row = column + extent.steps * kDepth;
  return {reinterpret_cast<std::uint32_t*>(workspace),
          column,
          row,
          row + extent.passes * extent.cols,
          int(extent.passes),
          int(extent.steps),
          false};
}

template <int kCols>
void run(const Stream& stream, MatrixView<const double> u, const double* needed, Work work) {
  constexpr int kRows = Tile<kCols>::kRows;
  const int blocks = work.u.passes * work.u.steps;
  const MatrixView<float>& rows = work.v.rows;
  work.tiles = int((rows.rows + kRows - 1) / kRows);
  if (rows.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0)
    work.whole = {int(rows.rows / kRows), int(rows.cols / kDepth), int(rows.cols / kCols)};
  work.u.stays = 2 * blocks <= Tile<kCols>::kSlots;
  block_difference_kernel<kCols><<<unsigned(blocks), kCols, 0, stream.stream>>>(needed, u, work.u);
  check_launch("difference of factors from 1");
  check(cudaFuncSetAttribute(fold_kernel<kCols>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(sizeof(Shared<kCols>))),
        "cudaFuncSetAttribute");
  fold_kernel<kCols><<<blocks_for(work.tiles, 1, stream.multiprocessors), Tile<kCols>::kThreads,
                       sizeof(Shared<kCols>), stream.stream>>>(needed, work);
  check_launch("fold factors");
}

}  // namespace
}  // namespace fold

Index fold_hopper_floats(const Stream& stream, Index width) {
  const fold::Extent extent = fold::extent_of(width - 1);
  return extent.floats() + stream.multiprocessors * (extent.passes - 1) * extent.held();
}

bool fold_rows_hopper(const Stream& stream, MatrixView<const double> u, const double* needed,
                      const FactorView<float>& v, float* workspace) {
  if (!device_has_wgmma()) return false;
  const fold::Extent extent = fold::extent_of(u.cols - 1);
  const fold::Work work{v,
                        fold::difference_in(workspace, extent),
                        reinterpret_cast<float4*>(workspace + extent.floats()),
                        0,
                        {}};
  if (extent.cols == 128)
    fold::run<128>(stream, u, needed, work);
  else
    fold::run<256>(stream, u, needed, work);
  return true;
}

}  // namespace norn::cuda
