// SPDX-License-Identifier: Apache-2.0
// V += V (U - 1) in place on tensor cores, on devices that fold_hopper.cu is not for. A block takes
// 128 rows at a time. They, and U - 1 in the order in which lanes read it, come in stages of 16 of
// the width, 3 stages ahead. Rows change when all their sums are known: those of all passes but the
// last wait in global memory. Sums run along the width in one order, so an element depends on its
// row and column alone.
#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/factored/fours.cuh"
#include "kernels/cuda/factored/tf32.cuh"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kRows = 128;  // of a tile: two warps of 64
constexpr int kCols = 256;  // of a pass: four warps of 64
constexpr int kDepth = 16;  // of a stage
constexpr int kStages = 4;
constexpr int kStageOfU = kDepth * kCols;
constexpr int kHeld = kRows * kCols;  // sums of a pass

Index passes_of(Index d) {
  return std::max<Index>(1, (d + kCols - 1) / kCols);
}
Index steps_of(Index d) {
  return std::max<Index>(1, (d + kDepth - 1) / kDepth);
}

/// U - 1 in float32, which is small: its products may be rounded. Zeros beyond the width. Its last
/// row and column, which go with V's last elements, stand apart.
struct Difference {
  float* stages;  // [passes x steps x kStageOfU]
  float* column;  // [steps x kDepth]
  float* row;     // [passes x kCols]
  float* corner;
  int passes, steps;
};

struct Shared {
  float4 v[kStages][kRows][kDepth / 4];
  float4 u[kStages][2][kCols / 16][kWarp];
  float last[kStages][kRows];  // of this tile and those that are on their way
};

/// Which stage of the block's work.
struct Place {
  Index first;  // row
  int pass, step, tile;
};

/// A thread's part of a tile: 64 rows and columns of a warp. Pieces of 16 x 8 go in pairs, whose
/// columns are mixed such that a thread has four side by side: of[..][pair][half].
struct Sums {
  float of[4][4][2][4];
};

__device__ __forceinline__ int warp_row() {
  return int(threadIdx.x) / kWarp / 4 * 64;
}
__device__ __forceinline__ int warp_col() {
  return int(threadIdx.x) / kWarp % 4 * 64;
}
__device__ __forceinline__ int group_of_lane() {
  return int(threadIdx.x) % kWarp / 4;
}
__device__ __forceinline__ int member_of_lane() {
  return int(threadIdx.x) % 4;
}

// Which element of U - 1 is where. Columns are mixed as in Sums. Of the two products along a stage,
// the first takes elements 0 and 1 of each four, the second 2 and 3: a lane's four of V are one
// load.
__global__ void __launch_bounds__(kThreads)
    difference_kernel(const double* needed, MatrixView<const double> u, Difference to) {
  if (*needed == 0.0) return;
  const Index d = u.cols - 1;
  const auto element = [&](Index r, Index c) { return float(u(r, c) - (r == c ? 1.0 : 0.0)); };
  const int thread = int(threadIdx.x);
  const Index step = blockIdx.x % unsigned(to.steps), pass = blockIdx.x / unsigned(to.steps);
  for (int at = thread; at < kStageOfU; at += kThreads) {
    const int i = at % 4, lane = at / 4 % kWarp, pair = at / 128 % (kCols / 16), part = at / 2048;
    const Index k = step * kDepth + lane % 4 * 4 + part * 2 + i % 2;
    const Index c = pass * kCols + pair * 16 + lane / 8 * 4 + i / 2 * 2 + lane / 4 % 2;
    to.stages[Index(blockIdx.x) * kStageOfU + at] = k < d && c < d ? element(k, c) : 0.0f;
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

/// Copies 16 bytes, of which those beyond `bytes` are 0.
__device__ __forceinline__ void copy_16(void* to, const float* from, int bytes) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(unsigned(__cvta_generic_to_shared(to))),
      "l"(from), "r"(bytes)
      : "memory");
}
__device__ __forceinline__ void copy_4(void* to, const float* from, int bytes) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(unsigned(__cvta_generic_to_shared(to))),
      "l"(from), "r"(bytes)
      : "memory");
}

/// What the kernel works on.
struct Work {
  FactorView<float> v;
  Difference u;
  float4* held;  // [blocks x (passes - 1) x kHeld / 4]
  bool aligned;  // rows of v to 16 bytes
};

__device__ __forceinline__ void fetch(const Work& work, const Place& place, int slot,
                                      Shared& shared) {
  const MatrixView<float>& v = work.v.rows;
  const int thread = int(threadIdx.x);
  if (place.first < v.rows) {
    const Index k = Index(place.step) * kDepth + thread % 4 * 4;
    const int count = present(v.cols, k);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = thread / 4 + 64 * i;
      const int n = place.first + r < v.rows ? count : 0;
      const float* from = n > 0 ? v.row(place.first + r) + k : v.data;
      float* to = &shared.v[slot][r][thread % 4].x;
      if (work.aligned) {
        copy_16(to, from, 4 * n);
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) copy_4(to + j, j < n ? from + j : v.data, j < n ? 4 : 0);
    }
    const float* u = work.u.stages + (Index(place.pass) * work.u.steps + place.step) * kStageOfU;
    float4* to = &shared.u[slot][0][0][0];
#pragma unroll
    for (int i = 0; i < kStageOfU / 4 / kThreads; ++i)
      copy_16(to + thread + i * kThreads, u + (thread + i * kThreads) * 4, 16);
    if (place.pass == 0 && place.step == 0 && thread < kRows) {
      const Index unit = place.first + thread;
      const bool is = unit < v.rows;
      copy_4(&shared.last[place.tile % kStages][thread], work.v.last.data + (is ? unit : 0),
             is ? 4 : 0);
    }
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void advance(const Work& work, Place& place) {
  if (++place.step < work.u.steps) return;
  place.step = 0;
  if (++place.pass < work.u.passes) return;
  place.pass = 0;
  ++place.tile;
  place.first += Index(gridDim.x) * kRows;
}

/// The terms of four rows pieces and a pair of columns pieces. The same sum comes once in eight.
__device__ __forceinline__ void add_pair(const std::uint32_t (&high_a)[4][4],
                                         const std::uint32_t (&low_a)[4][4], const float4& b,
                                         int pair, Sums& sums) {
  std::uint32_t high_b[2][2], low_b[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Split part = split(part_of(b, i));
    high_b[i / 2][i % 2] = part.high;
    low_b[i / 2][i % 2] = part.low;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    multiply_add(sums.of[i / 2][pair][i % 2], low_a[i / 2], high_b[i % 2]);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    multiply_add(sums.of[i / 2][pair][i % 2], high_a[i / 2], low_b[i % 2]);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    multiply_add(sums.of[i / 2][pair][i % 2], high_a[i / 2], high_b[i % 2]);
}

/// The terms of half a stage.
__device__ __forceinline__ void add_half(const Shared& shared, int slot, int half, Sums& sums) {
  const int lane = int(threadIdx.x) % kWarp, member = member_of_lane();
  std::uint32_t high[4][4], low[4][4];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int r = warp_row() + 8 * i + group_of_lane();
    const float2 two = reinterpret_cast<const float2*>(&shared.v[slot][r][member])[half];
    const Split x = split(two.x), y = split(two.y);
    high[i / 2][i % 2] = x.high;
    low[i / 2][i % 2] = x.low;
    high[i / 2][i % 2 + 2] = y.high;
    low[i / 2][i % 2 + 2] = y.low;
  }
#pragma unroll
  for (int pair = 0; pair < 4; ++pair)
    add_pair(high, low, shared.u[slot][half][warp_col() / 16 + pair][lane], pair, sums);
}

/// Adds a stage's terms, and to `dots` those of the last elements of rows: each of the four warps
/// that have a row does so for a quarter of its rows. fetch_next() goes in the middle, where tensor
/// cores are busy.
template <typename FetchNext>
__device__ __forceinline__ void add_stage(const Shared& shared, int slot, const float4& column,
                                          bool has_columns, Sums& sums, float (&dots)[2],
                                          const FetchNext& fetch_next) {
  if (has_columns) add_half(shared, slot, 0, sums);
  fetch_next();
  if (has_columns) add_half(shared, slot, 1, sums);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = warp_row() + warp_col() / 4 + 8 * h + group_of_lane();
    const float4 x = shared.v[slot][r][member_of_lane()];
#pragma unroll
    for (int i = 0; i < 4; ++i) dots[h] = fmaf(part_of(x, i), part_of(column, i), dots[h]);
  }
}

/// Adds what comes from the last elements of rows.
__device__ __forceinline__ void add_last(const Work& work, const float (&last)[kRows], int pass,
                                         Sums& sums) {
  const float* row = work.u.row + pass * kCols + warp_col() + 4 * member_of_lane();
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const float4 u = *reinterpret_cast<const float4*>(row + 16 * pair);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      float& sum = sums.of[i / 8][pair][i / 4 % 2][i % 4];
      const float x = last[warp_row() + i / 8 * 16 + i % 4 / 2 * 8 + group_of_lane()];
      sum = fmaf(x, part_of(u, i / 4 % 2 * 2 + i % 2), sum);
    }
  }
}

__device__ __forceinline__ void hold(const Sums& sums, float4* to) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float(&x)[4] = sums.of[i / 8][i / 2 % 4][i % 2];
    to[i * kThreads] = make_float4(x[0], x[1], x[2], x[3]);
  }
}

__device__ __forceinline__ void take(const float4* from, Sums& sums) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float4 x = from[i * kThreads];
#pragma unroll
    for (int j = 0; j < 4; ++j) sums.of[i / 8][i / 2 % 4][i % 2][j] = part_of(x, j);
  }
}

/// Adds sums to rows of v. Eight loads go before their stores, for which they would wait.
template <bool kWhole>
__device__ __forceinline__ void add_sums(const MatrixView<float>& v, Index row, Index column,
                                         const Sums& sums) {
#pragma unroll
  for (int m = 0; m < 4; ++m) {
    float4 x[8];
    float* at[2];
    int count[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const Index unit = row + 16 * m + i / 4 * 8;
      at[i / 4] = v.row(unit) + column;
      count[i] = unit < v.rows ? present(v.cols, column + i % 4 * 16) : 0;
      x[i] = load_four<kWhole>(at[i / 4] + i % 4 * 16, count[i]);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float(&halves)[2][4] = sums.of[m][i % 4];
      const int from = i / 4 * 2;
      const float4 y = make_float4(x[i].x + halves[0][from], x[i].y + halves[0][from + 1],
                                   x[i].z + halves[1][from], x[i].w + halves[1][from + 1]);
      store_four<kWhole>(at[i / 4] + i % 4 * 16, y, count[i]);
    }
  }
}

__device__ __forceinline__ void add_to_rows(const Work& work, Index first, int pass,
                                            const Sums& sums) {
  const MatrixView<float>& v = work.v.rows;
  const Index warp_first = Index(pass) * kCols + warp_col();
  if (warp_first >= v.cols) return;
  const Index row = first + warp_row() + group_of_lane();
  const Index column = warp_first + 4 * member_of_lane();
  if (work.aligned && first + kRows <= v.rows && warp_first + 64 <= v.cols)
    add_sums<true>(v, row, column, sums);
  else
    add_sums<false>(v, row, column, sums);
}

/// The last elements of a tile's rows.
__device__ __forceinline__ void set_last(const Work& work, Index first, const float (&last)[kRows],
                                         const float (&dots)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = dots[h];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    const int r = warp_row() + warp_col() / 4 + 8 * h + group_of_lane();
    if (member_of_lane() == 0 && first + r < work.v.rows.rows)
      work.v.last[first + r] = last[r] + fmaf(last[r], *work.u.corner, sum);
  }
}

/// The sums of a pass. `next` is three stages ahead.
__device__ __forceinline__ void sum_pass(const Work& work, int pass, Shared& shared, int& slot,
                                         Place& next, Sums& sums, float (&dots)[2]) {
#pragma unroll
  for (int i = 0; i < 128; ++i) sums.of[i / 32][i / 8 % 4][i / 4 % 2][i % 4] = 0.0f;
  const bool has_columns = Index(pass) * kCols + warp_col() < work.v.rows.cols;
  for (int step = 0; step < work.u.steps; ++step) {
    float4 column = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (pass == 0)
      column = reinterpret_cast<const float4*>(work.u.column)[step * 4 + member_of_lane()];
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();  // the stage is there, and all are done with the one before
    add_stage(shared, slot, column, has_columns, sums, dots, [&] {
      fetch(work, next, (slot + kStages - 1) % kStages, shared);
      advance(work, next);
    });
    slot = (slot + 1) % kStages;
  }
}

__global__ void __launch_bounds__(kThreads, 1) fold_kernel(const double* needed, Work work) {
  if (*needed == 0.0) return;
  extern __shared__ __align__(16) unsigned char bytes[];
  Shared& shared = *reinterpret_cast<Shared*>(bytes);
  const int passes = work.u.passes;
  float4* const held =
      work.held + Index(blockIdx.x) * (passes - 1) * (kHeld / 4) + int(threadIdx.x);
  Place next{Index(blockIdx.x) * kRows, 0, 0, 0};
  for (int s = 0; s + 1 < kStages; ++s) {
    fetch(work, next, s, shared);
    advance(work, next);
  }
  int slot = 0, tile = 0;
  for (Index first = Index(blockIdx.x) * kRows; first < work.v.rows.rows;
       first += Index(gridDim.x) * kRows, ++tile) {
    const float(&last)[kRows] = shared.last[tile % kStages];
    Sums sums;
    for (int pass = 0; pass < passes; ++pass) {
      float dots[2] = {0.0f, 0.0f};
      sum_pass(work, pass, shared, slot, next, sums, dots);
      add_last(work, last, pass, sums);
      if (pass == 0) set_last(work, first, last, dots);
      if (pass + 1 < passes) hold(sums, held + pass * (kHeld / 4));
    }
    // Nothing of these rows is read any more but by the thread that changes it.
#pragma unroll 1
    for (int pass = passes - 1; pass >= 0; --pass) {
      if (pass + 1 < passes) take(held + pass * (kHeld / 4), sums);
      add_to_rows(work, first, pass, sums);
    }
  }
}

Index difference_floats(Index d) {
  return passes_of(d) * steps_of(d) * kStageOfU + steps_of(d) * kDepth + passes_of(d) * kCols + 4;
}

Difference difference_in(float* workspace, Index d) {
  const Index passes = passes_of(d), steps = steps_of(d);
  float* const column = workspace + passes * steps * kStageOfU;
  float* const row = column + steps * kDepth;
  return {workspace, column, row, row + passes * kCols, int(passes), int(steps)};
}

}  // namespace

Index fold_floats(const Stream& stream, Index width) {
  const Index d = width - 1;
  return std::max(difference_floats(d) + stream.multiprocessors * (passes_of(d) - 1) * kHeld,
                  fold_hopper_floats(stream, width));
}

void fold_rows(const Stream& stream, MatrixView<const double> u, const double* needed,
               const FactorView<float>& v, float* workspace) {
  if (v.rows.rows == 0 || fold_rows_hopper(stream, u, needed, v, workspace)) return;
  const Index d = u.cols - 1;
  const bool aligned =
      v.rows.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(v.rows.data) % 16 == 0;
  const Work work{v, difference_in(workspace, d),
                  reinterpret_cast<float4*>(workspace + difference_floats(d)), aligned};
  difference_kernel<<<unsigned(passes_of(d) * steps_of(d)), kThreads, 0, stream.stream>>>(needed, u,
                                                                                          work.u);
  check_launch("difference of factors from 1");
  check(cudaFuncSetAttribute(fold_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(sizeof(Shared))),
        "cudaFuncSetAttribute");
  fold_kernel<<<blocks_for(v.rows.rows, kRows, stream.multiprocessors), kThreads, sizeof(Shared),
                stream.stream>>>(needed, work);
  check_launch("fold factors");
}

}  // namespace norn::cuda
