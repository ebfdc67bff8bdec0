// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/factored/tf32.cuh"
#include "kernels/cuda/hopper/tile_product.cuh"

/// What fold_hopper.cu multiplies by: U - 1 in blocks, which go through a ring in shared memory.
/// One warp has what tensor cores read of a block copied, three more make the rest of it. Where the
/// ring has a place for every block they are made once and stay.
namespace norn::cuda::fold {

constexpr int kWarp = 32;
constexpr int kDepth = 32;              // of a block of U - 1, whose row has 128 bytes
constexpr int kLowThreads = 3 * kWarp;  // that make low parts
constexpr int kLowBarrier = 1;          // named barriers
constexpr int kLeadBarrier = 2;         // and the next one

/// Passes of so many columns, 256 or 128. With narrow ones a thread has half as many sums, and
/// there is room for three multiplying warpgroups in place of two.
template <int kColsOfPass>
struct Tile {
  static constexpr int kCols = kColsOfPass;
  static constexpr int kGroups = kCols == 256 ? 2 : 3;
  static constexpr int kRows = kGroups * 64;
  static constexpr int kMultipliers = kGroups * kConsumerThreads;
  static constexpr int kThreads = kMultipliers + 128;
  static constexpr int kHeld = kRows * kCols;  // sums of a pass
  static constexpr int kBlock = kCols * kDepth;
  static constexpr int kSlots = kCols == 256 ? 7 : 13;
  static constexpr int kProducerRegisters = kCols == 256 ? 40 : 56;
  static constexpr int kMultiplierRegisters = kCols == 256 ? 232 : 152;
  static_assert(kGroups * kMultiplierRegisters + kProducerRegisters <= 65536 / 128);
};

/// U - 1 in float32, which is small: its products may be rounded. Zeros beyond the width. Its last
/// row and column, which go with V's last elements, stand apart.
struct Difference {
  std::uint32_t* blocks;  // [passes x steps x kBlock] operand_of() each
  float* column;          // [steps x kDepth]
  float* row;             // [passes x kCols]
  float* corner;
  int passes, steps;
  bool stays;  // in the ring, from a block's first tile on
};

/// The first tiles, steps and passes that have all their rows and columns, where rows are aligned
/// to 16 bytes. None otherwise.
struct Whole {
  int tiles, steps, passes;
};

/// What the kernel works on.
struct Work {
  FactorView<float> v;
  Difference u;
  float4* held;  // [blocks x (passes - 1) x kHeld / 4]
  int tiles;     // of v
  Whole whole;
};

/// A block of U - 1 has two slots, one after the other: what tensor cores read, then low parts. As
/// their number is odd, who fills one waits for its every second phase. None is missed: the slot
/// filled before it was empty, and slots become so in their order.
template <int kCols>
struct Shared {
  static constexpr int kSlots = Tile<kCols>::kSlots;
  static_assert(kSlots % 2 == 1);
  std::uint32_t slot[kSlots][Tile<kCols>::kBlock];
  std::uint64_t full[kSlots];
  std::uint64_t empty[kSlots];
};

/// A place in the ring, and the parity of its phase.
template <int kSlots>
struct Slot {
  std::uint32_t index = 0, parity = 0;

  __device__ __forceinline__ Slot next() const {
    const bool wraps = index + 1 == kSlots;
    return {wraps ? 0 : index + 1, parity ^ std::uint32_t(wraps)};
  }
};

template <int kCols>
using SlotOf = Slot<Tile<kCols>::kSlots>;

template <int kCols>
__device__ __forceinline__ void wait_full(Shared<kCols>& shared, const SlotOf<kCols>& slot) {
  hopper::barrier_wait(hopper::shared_address(&shared.full[slot.index]), slot.parity);
}
template <int kCols>
__device__ __forceinline__ void wait_empty(Shared<kCols>& shared, const SlotOf<kCols>& slot) {
  // Every slot is empty at first.
  hopper::barrier_wait(hopper::shared_address(&shared.empty[slot.index]), slot.parity ^ 1);
}

template <int kCols>
__device__ __forceinline__ void init_ring(Shared<kCols>& shared) {
  for (int s = 0; s < Tile<kCols>::kSlots; ++s) {
    hopper::barrier_init(hopper::shared_address(&shared.full[s]), 1);
    hopper::barrier_init(hopper::shared_address(&shared.empty[s]),
                         Tile<kCols>::kMultipliers / kWarp);
  }
  hopper::barrier_init_done();
}

// Which element of U - 1 is where in a block. Its columns are mixed such that a thread has four
// sums side by side in a row of V, its rows such that a thread's operands are four in a row, too.
__device__ __forceinline__ int column_at(int n) {
  return n / 16 * 16 + n % 8 / 2 * 4 + n / 8 % 2 * 2 + n % 2;
}
__device__ __forceinline__ int depth_at(int k) {
  return k / 16 * 16 + k % 4 * 4 + k / 8 % 2 * 2 + k / 4 % 2;
}

/// By kCols threads.
template <int kCols>
__global__ void __launch_bounds__(kCols)
    block_difference_kernel(const double* needed, MatrixView<const double> u, Difference to) {
  if (*needed == 0.0) return;
  constexpr int kBlock = Tile<kCols>::kBlock;
  const Index d = u.cols - 1;
  const auto element = [&](Index r, Index c) { return float(u(r, c) - (r == c ? 1.0 : 0.0)); };
  const int thread = int(threadIdx.x);
  const Index step = blockIdx.x % unsigned(to.steps), pass = blockIdx.x / unsigned(to.steps);
#pragma unroll 4
  for (int at = thread; at < kBlock; at += kCols) {
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

/// The ring is filled anew for each of the block's tiles before this one.
__device__ __forceinline__ int filled_until(const Work& work) {
  return work.u.stays ? int(blockIdx.x) + 1 : work.tiles;
}

/// By one warp: has the blocks of U - 1 copied.
template <int kCols>
__device__ void copy_blocks(const Work& work, Shared<kCols>& shared) {
  constexpr int kBlock = Tile<kCols>::kBlock;
  const int blocks = work.u.passes * work.u.steps;
  const int until = filled_until(work);
  SlotOf<kCols> slot;
  for (int tile = int(blockIdx.x); tile < until; tile += int(gridDim.x))
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
template <int kCols>
__device__ void make_low_parts(const Work& work, Shared<kCols>& shared) {
  const int thread = int(threadIdx.x) % kConsumerThreads - kWarp;
  const int blocks = work.u.passes * work.u.steps;
  const int until = filled_until(work);
  SlotOf<kCols> high;
  for (int tile = int(blockIdx.x); tile < until; tile += int(gridDim.x))
    for (int b = 0; b < blocks; ++b) {
      const SlotOf<kCols> low = high.next();
      wait_full(shared, high);
      wait_empty(shared, low);
      const uint4* from = reinterpret_cast<const uint4*>(shared.slot[high.index]);
      uint4* to = reinterpret_cast<uint4*>(shared.slot[low.index]);
#pragma unroll 4
      for (int i = thread; i < Tile<kCols>::kBlock / 4; i += kLowThreads) {
        const uint4 x = from[i];
        to[i] = make_uint4(low_of(x.x), low_of(x.y), low_of(x.z), low_of(x.w));
      }
      hopper::fence_async();
      hopper::named_sync(kLowBarrier, kLowThreads);
      if (thread == 0) hopper::barrier_arrive(hopper::shared_address(&shared.full[low.index]));
      high = low.next();
    }
}

}  // namespace norn::cuda::fold
