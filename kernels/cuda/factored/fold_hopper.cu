// SPDX-License-Identifier: Apache-2.0
// V += V (U - 1) in place by products of warpgroups. A block takes 128 rows at a time, each of its
// two multiplying warpgroups 64 of them, whose operands go from global memory to registers. U - 1
// comes through a ring in shared memory, in blocks of 256 columns and 32 of the width: one warp has
// what tensor cores read of it copied, three more make the rest of that. Rows change when all their
// sums are known: those of all passes but the last wait in global memory. A row is one warp's alone
// and its sums run along the width in one order.
#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/factored/fours.cuh"
#include "kernels/cuda/factored/tf32.cuh"
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tile_product.cuh"

namespace norn::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kGroupRows = 64;
constexpr int kRows = kConsumers * kGroupRows;  // of a tile
constexpr int kCols = 256;                      // of a pass
constexpr int kDepth = 32;                      // of a block of U - 1, whose row has 128 bytes
constexpr int kBlock = kCols * kDepth;
constexpr int kSlots = 7;
constexpr int kMultipliers = kConsumers * kConsumerThreads;
constexpr int kHeld = kRows * kCols;    // sums of a pass
constexpr int kLowThreads = 3 * kWarp;  // that make low parts
constexpr int kLowBarrier = 1;          // named barriers
constexpr int kLeadBarrier = 2;
// Steps that the first warpgroup is ahead, so that one multiplies while the other one changes rows.
constexpr int kLead = 2;
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

Index passes_of(Index d) {
  return std::max<Index>(1, (d + kCols - 1) / kCols);
}
Index steps_of(Index d) {
  return std::max<Index>(1, (d + kDepth - 1) / kDepth);
}

/// U - 1 in float32, which is small: its products may be rounded. Zeros beyond the width. Its last
/// row and column, which go with V's last elements, stand apart.
struct Difference {
  std::uint32_t* blocks;  // [passes x steps x kBlock] operand_of() each
  float* column;          // [steps x kDepth]
  float* row;             // [passes x kCols]
  float* corner;
  int passes, steps;
};

/// What the kernel works on.
struct Work {
  FactorView<float> v;
  Difference u;
  float4* held;  // [blocks x (passes - 1) x kHeld / 4]
  bool aligned;  // rows of v to 16 bytes
};

/// A block of U - 1 has two slots, one after the other: what tensor cores read, then low parts. As
/// their number is odd, who fills one waits for its every second phase. None is missed: the slot
/// filled before it was empty, and slots become so in their order.
struct Shared {
  std::uint32_t slot[kSlots][kBlock];
  std::uint64_t full[kSlots];
  std::uint64_t empty[kSlots];
};

/// A place in the ring, and the parity of its phase.
struct Slot {
  std::uint32_t index = 0, parity = 0;

  __device__ __forceinline__ Slot next() const {
    const bool wraps = index + 1 == kSlots;
    return {wraps ? 0 : index + 1, parity ^ std::uint32_t(wraps)};
  }
};

__device__ __forceinline__ void wait_full(Shared& shared, const Slot& slot) {
  hopper::barrier_wait(hopper::shared_address(&shared.full[slot.index]), slot.parity);
}
__device__ __forceinline__ void wait_empty(Shared& shared, const Slot& slot) {
  // Every slot is empty at first.
  hopper::barrier_wait(hopper::shared_address(&shared.empty[slot.index]), slot.parity ^ 1);
}

// Which element of U - 1 is where in a block. Its columns are mixed such that a thread has four
// sums side by side in a row of V, its rows such that a thread's operands are four in a row, too.
__device__ __forceinline__ int column_at(int n) {
  return n / 16 * 16 + n % 8 / 2 * 4 + n / 8 % 2 * 2 + n % 2;
}
__device__ __forceinline__ int depth_at(int k) {
  return k / 16 * 16 + k % 4 * 4 + k / 8 % 2 * 2 + k / 4 % 2;
}

constexpr int kDifferenceThreads = kCols;

__global__ void __launch_bounds__(kDifferenceThreads)
    wide_difference_kernel(const double* needed, MatrixView<const double> u, Difference to) {
  if (*needed == 0.0) return;
  const Index d = u.cols - 1;
  const auto element = [&](Index r, Index c) { return float(u(r, c) - (r == c ? 1.0 : 0.0)); };
  const int thread = int(threadIdx.x);
  const Index step = blockIdx.x % unsigned(to.steps), pass = blockIdx.x / unsigned(to.steps);
#pragma unroll 4
  for (int at = thread; at < kBlock; at += kDifferenceThreads) {
    const int n = at / kDepth;
    const int swizzled = at % kDepth / 4 ^ n % 8;  // which four of the row these 16 bytes hold
    const Index k = step * kDepth + depth_at(swizzled * 4 + at % 4);
    const Index c = pass * kCols + column_at(n);
    to.blocks[Index(blockIdx.x) * kBlock + at] = operand_of(k < d && c < d ? element(k, c) : 0.0f);
  }
  if (pass == 0 && thread < kDepth) {
    const Index k = step * kDepth + thread;
    to.column[k] = k < d ? element(k, d) : 0.0f;
  }
  if (step == 0) {
    const Index c = pass * kCols + thread;
    to.row[c] = c < d ? element(d, c) : 0.0f;
  }
  if (blockIdx.x == 0 && thread == 0) *to.corner = element(d, d);
}

/// By one warp: has the blocks of U - 1 copied, once for each tile.
__device__ void copy_blocks(const Work& work, Shared& shared) {
  const int blocks = work.u.passes * work.u.steps;
  Slot slot;
  for (Index first = Index(blockIdx.x) * kRows; first < work.v.rows.rows;
       first += Index(gridDim.x) * kRows)
    for (int b = 0; b < blocks; ++b) {
      wait_empty(shared, slot);
      if (hopper::elected()) {
        const std::uint32_t full = hopper::shared_address(&shared.full[slot.index]);
        hopper::barrier_arrive_expecting(full, sizeof(shared.slot[0]));
        hopper::load_bytes(work.u.blocks + Index(b) * kBlock,
                           hopper::shared_address(shared.slot[slot.index]), full,
                           sizeof(shared.slot[0]));
      }
      slot = slot.next().next();
    }
}

/// By three warps: low parts. A multiplying warp gives back both slots of a block together, so that
/// the first one is there as long as it is read.
__device__ void make_low_parts(const Work& work, Shared& shared) {
  const int thread = int(threadIdx.x) % kConsumerThreads - kWarp;
  const int blocks = work.u.passes * work.u.steps;
  Slot high;
  for (Index first = Index(blockIdx.x) * kRows; first < work.v.rows.rows;
       first += Index(gridDim.x) * kRows)
    for (int b = 0; b < blocks; ++b) {
      const Slot low = high.next();
      wait_full(shared, high);
      wait_empty(shared, low);
      const uint4* from = reinterpret_cast<const uint4*>(shared.slot[high.index]);
      uint4* to = reinterpret_cast<uint4*>(shared.slot[low.index]);
#pragma unroll 4
      for (int i = thread; i < kBlock / 4; i += kLowThreads) {
        const uint4 x = from[i];
        to[i] = make_uint4(low_of(x.x), low_of(x.y), low_of(x.z), low_of(x.w));
      }
      hopper::fence_async();
      hopper::named_sync(kLowBarrier, kLowThreads);
      if (thread == 0) hopper::barrier_arrive(hopper::shared_address(&shared.full[low.index]));
      high = low.next();
    }
}

/// What a multiplying thread loads next.
struct Place {
  Index first;  // row of the tile
  int pass, step;
};

__device__ __forceinline__ void advance(const Work& work, Place& place) {
  if (++place.step < work.u.steps) return;
  place.step = 0;
  if (++place.pass < work.u.passes) return;
  place.pass = 0;
  place.first += Index(gridDim.x) * kRows;
}

/// The first of a thread's two rows of a tile, which are 8 apart.
__device__ __forceinline__ int thread_row() {
  return int(threadIdx.x) / kWarp * 16 + int(threadIdx.x) % kWarp / 4;
}
/// Which of the four threads that share them.
__device__ __forceinline__ int member() {
  return int(threadIdx.x) % 4;
}

/// The thread's operands of half a step: four in each of its rows.
__device__ __forceinline__ void load_half(const Work& work, const Place& place, int half,
                                          float4 (&v)[2]) {
  const MatrixView<float>& rows = work.v.rows;
  const Index row = place.first + thread_row();
  const Index k = Index(place.step) * kDepth + half * 16 + member() * 4;
  if (work.aligned && place.first + kRows <= rows.rows &&
      (Index(place.step) + 1) * kDepth <= rows.cols) {
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

__device__ __forceinline__ void load_last(const Work& work, Index first, float (&last)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Index row = first + thread_row() + 8 * i;
    last[i] = row < work.v.rows.rows ? work.v.last[row] : 0.0f;
  }
}

/// The terms of half a step: of two products' depth, three products for each.
__device__ __forceinline__ void multiply_half(const float4 (&v)[2], std::uint64_t high,
                                              std::uint64_t low, int half, float (&sums)[128]) {
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
    hopper::multiply_add_64x256x8(sums, low_v[i], high + run);
    hopper::multiply_add_64x256x8(sums, high_v[i], low + run);
    hopper::multiply_add_64x256x8(sums, high_v[i], high + run);
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
__device__ __forceinline__ void begin_sums(const Work& work, int pass, const float (&last)[2],
                                           float (&sums)[128]) {
  const float* row = work.u.row + pass * kCols + member() * 4;
#pragma unroll
  for (int m = 0; m < kCols / 16; ++m) {
    const float4 u = *reinterpret_cast<const float4*>(row + 16 * m);
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[8 * m + i] = last[i / 2 % 2] * part_of(u, i / 4 * 2 + i % 2);
  }
}

/// The state of a multiplying thread between tiles.
struct Multiplier {
  const Work& work;
  Shared& shared;
  Slot slot;
  Place next;
  float4 v[2][2];  // operands of the next step: halves, rows
  int until_lead;  // steps after which the second warpgroup may begin; of that one 0
};

__device__ __forceinline__ void release(Shared& shared, const Slot& slot) {
  if (threadIdx.x % kWarp != 0) return;
  hopper::barrier_arrive(hopper::shared_address(&shared.empty[slot.index]));
  hopper::barrier_arrive(hopper::shared_address(&shared.empty[slot.next().index]));
}

/// The sums of a pass. Half a step's products are under way while operands of the next half are
/// made; those in use may change when the half before the last one is done.
__device__ __forceinline__ void sum_pass(Multiplier& self, int pass, float (&sums)[128],
                                         float (&dots)[2]) {
  const Work& work = self.work;
  const float* column = work.u.column + member() * 4;
  Slot before;
  for (int step = 0; step < work.u.steps; ++step) {
    const Slot low_slot = self.slot.next();
    wait_full(self.shared, self.slot);
    wait_full(self.shared, low_slot);
    const std::uint64_t high = hopper::operand<hopper::Major::k>(
        hopper::shared_address(self.shared.slot[self.slot.index]));
    const std::uint64_t low =
        hopper::operand<hopper::Major::k>(hopper::shared_address(self.shared.slot[low_slot.index]));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      hopper::product_wait<1>();
      if (half == 1 && step > 0) release(self.shared, before);
      multiply_half(self.v[half], high, low, half, sums);
      if (pass == 0) add_dots(self.v[half], column + step * kDepth + half * 16, dots);
      load_half(work, self.next, half, self.v[half]);
    }
    advance(work, self.next);
    if (--self.until_lead == 0) hopper::named_arrive(kLeadBarrier, kMultipliers);
    before = self.slot;
    self.slot = low_slot.next();
  }
  hopper::product_wait<0>();
  hopper::pin(sums);
  release(self.shared, before);
}

__device__ __forceinline__ void hold(const float (&sums)[128], float4* to) {
#pragma unroll
  for (int i = 0; i < 32; ++i)
    to[i * kMultipliers] =
        make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
}

__device__ __forceinline__ void take(const float4* from, float (&sums)[128]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float4 x = from[i * kMultipliers];
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[4 * i + j] = part_of(x, j);
  }
}

/// Adds sums to the thread's rows of v, four at a time. A load waits for the stores before it, so
/// it goes some fours ahead.
template <bool kWhole>
__device__ __forceinline__ void add_sums(const MatrixView<float>& v, Index first, int pass,
                                         const float (&sums)[128]) {
  constexpr int kFours = 32, kOfRow = 16, kAhead = 8;
  const Index column = Index(pass) * kCols + member() * 4;
  float* row[2];
  int count[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Index r = first + thread_row() + 8 * i;
    row[i] = v.row(r) + column;
    count[i] = r < v.rows ? int(min(v.cols - column, Index(kCols))) : 0;
  }
  float4 x[kFours];
#pragma unroll
  for (int i = 0; i < kFours + kAhead; ++i) {
    if (i < kFours) {
      const int at = i % kOfRow * 16;
      x[i] = load_four<kWhole>(row[i / kOfRow] + at, count[i / kOfRow] - at);
    }
    if (i < kAhead) continue;
    const int done = i - kAhead, of = done / kOfRow, at = done % kOfRow * 16;
    const float* sum = sums + at / 2 + 2 * of;
    const float4 y =
        make_float4(x[done].x + sum[0], x[done].y + sum[1], x[done].z + sum[4], x[done].w + sum[5]);
    store_four<kWhole>(row[of] + at, y, count[of] - at);
  }
}

__device__ __forceinline__ void add_to_rows(const Work& work, Index first, int pass,
                                            const float (&sums)[128]) {
  const MatrixView<float>& v = work.v.rows;
  if (work.aligned && first + kRows <= v.rows && (Index(pass) + 1) * kCols <= v.cols)
    add_sums<true>(v, first, pass, sums);
  else
    add_sums<false>(v, first, pass, sums);
}

/// The last elements of the thread's rows.
__device__ __forceinline__ void set_last(const Work& work, Index first, const float (&last)[2],
                                         const float (&dots)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float sum = dots[i];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    const Index row = first + thread_row() + 8 * i;
    if (member() == 0 && row < work.v.rows.rows)
      work.v.last[row] = last[i] + fmaf(last[i], *work.u.corner, sum);
  }
}

/// By the warpgroups that multiply.
__device__ __forceinline__ void fold_tiles(const Work& work, Shared& shared, int group) {
  const int passes = work.u.passes;
  float4* const held =
      work.held + Index(blockIdx.x) * (passes - 1) * (kHeld / 4) + int(threadIdx.x);
  Index first = Index(blockIdx.x) * kRows;
  Multiplier self{work, shared, {}, {first, 0, 0}, {}, group == 0 ? min(kLead, work.u.steps) : 0};
  load_half(work, self.next, 0, self.v[0]);
  load_half(work, self.next, 1, self.v[1]);
  advance(work, self.next);
  float last[2];
  load_last(work, first, last);
  if (group == 1) hopper::named_sync(kLeadBarrier, kMultipliers);
  for (; first < work.v.rows.rows; first += Index(gridDim.x) * kRows) {
    float sums[128];
    for (int pass = 0; pass < passes; ++pass) {
      float dots[2] = {0.0f, 0.0f};
      begin_sums(work, pass, last, sums);
      sum_pass(self, pass, sums, dots);
      if (pass == 0) set_last(work, first, last, dots);
      if (pass + 1 < passes) hold(sums, held + pass * (kHeld / 4));
    }
    load_last(work, first + Index(gridDim.x) * kRows, last);
    // Nothing of these rows is read any more but by the thread that changes it.
#pragma unroll 1
    for (int pass = passes - 1; pass >= 0; --pass) {
      if (pass + 1 < passes) take(held + pass * (kHeld / 4), sums);
      add_to_rows(work, first, pass, sums);
    }
  }
}

__global__ void __launch_bounds__(kTileThreads, 1)
    fold_hopper_kernel(const double* needed, const __grid_constant__ Work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (*needed == 0.0) return;
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  Shared& shared = *reinterpret_cast<Shared*>(bytes);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kSlots; ++s) {
      hopper::barrier_init(hopper::shared_address(&shared.full[s]), 1);
      hopper::barrier_init(hopper::shared_address(&shared.empty[s]), kMultipliers / kWarp);
    }
    hopper::barrier_init_done();
  }
  __syncthreads();
  const int group = warpgroup();
  if (group == kConsumers) {
    hopper::give_registers<kProducerRegisters>();
    if (int(threadIdx.x) / kWarp % 4 == 0)
      copy_blocks(work, shared);
    else
      make_low_parts(work, shared);
  } else {
    hopper::take_registers<kConsumerRegisters>();
    fold_tiles(work, shared, group);
  }
#endif
}

Index difference_floats(Index d) {
  return passes_of(d) * steps_of(d) * kBlock + steps_of(d) * kDepth + passes_of(d) * kCols + 4;
}

Difference difference_in(float* workspace, Index d) {
  const Index passes = passes_of(d), steps = steps_of(d);
  float* const column = workspace + passes * steps * kBlock;
  float* const row = column + steps * kDepth;
  return {reinterpret_cast<std::uint32_t*>(workspace),
          column,
          row,
          row + passes * kCols,
          int(passes),
          int(steps)};
}

}  // namespace

Index fold_hopper_floats(const Stream& stream, Index width) {
  const Index d = width - 1;
  return difference_floats(d) + stream.multiprocessors * (passes_of(d) - 1) * kHeld;
}

bool fold_rows_hopper(const Stream& stream, MatrixView<const double> u, const double* needed,
                      const FactorView<float>& v, float* workspace) {
  if (!device_has_wgmma()) return false;
  const Index d = u.cols - 1;
  const bool aligned =
      v.rows.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(v.rows.data) % 16 == 0;
  const Work work{v, difference_in(workspace, d),
                  reinterpret_cast<float4*>(workspace + difference_floats(d)), aligned};
  wide_difference_kernel<<<unsigned(passes_of(d) * steps_of(d)), kDifferenceThreads, 0,
                           stream.stream>>>(needed, u, work.u);
  check_launch("difference of factors from 1");
  check(cudaFuncSetAttribute(fold_hopper_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(sizeof(Shared))),
        "cudaFuncSetAttribute");
  fold_hopper_kernel<<<blocks_for(v.rows.rows, kRows, stream.multiprocessors), kTileThreads,
                       sizeof(Shared), stream.stream>>>(needed, work);
  check_launch("fold factors");
  return true;
}

}  // namespace norn::cuda
