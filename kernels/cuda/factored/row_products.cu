// SPDX-License-Identifier: Apache-2.0
// Products with rows of V on tensor cores. Each operand is a sum of two numbers that they read, of
// which three products are made: what is left out is 2^-22 of a term. Sums run along the width in
// one order, so an element depends on its row and column alone.
#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/factored/tf32.cuh"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kRows = 128;  // of a block's tile
constexpr int kCols = 128;  // of it
constexpr int kDepth = 16;  // of a stage
constexpr int kPadA = kDepth + 4, kPadB = kCols + 8;
constexpr int kWarpRows = 32, kWarpCols = 64;
constexpr int kEach = kRows * kDepth / kThreads;  // elements of an operand's stage a thread loads

struct Stages {
  float a[2][kRows][kPadA];
  float b[2][kDepth][kPadB];
};

/// A warp's part of a tile: two by eight pieces of 16 x 8.
struct Sums {
  float of[2][8][4];
};

__device__ __forceinline__ void add_stage(const Stages& stages, int at, Sums& sums) {
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const int row0 = warp / 2 * kWarpRows, col0 = warp % 2 * kWarpCols;
  const int group = lane / 4, member = lane % 4;
#pragma unroll
  for (int k = 0; k < kDepth; k += 8) {
    std::uint32_t high_a[2][4], low_a[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = row0 + 16 * m + group + i % 2 * 8;
        const Split part = split(stages.a[at][row][k + member + i / 2 * 4]);
        high_a[m][i] = part.high;
        low_a[m][i] = part.low;
      }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      std::uint32_t high_b[2], low_b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Split part = split(stages.b[at][k + member + 4 * i][col0 + 8 * n + group]);
        high_b[i] = part.high;
        low_b[i] = part.low;
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        multiply_add(sums.of[m][n], low_a[m], high_b);
        multiply_add(sums.of[m][n], high_a[m], low_b);
        multiply_add(sums.of[m][n], high_a[m], high_b);
      }
    }
  }
}

/// A tile's sums over k in [0, depth) of a(row, k) b(k, column). `a` and `b` give 0 beyond what
/// there is. kAlongDepth: elements of b lie side by side along k.
template <bool kAlongDepth, typename A, typename B>
__device__ __forceinline__ void multiply_tile(Stages& stages, Index depth, const A& a, const B& b,
                                              Sums& sums) {
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums.of[m][n][i] = 0.0f;
  const int thread = int(threadIdx.x);
  float next_a[kEach], next_b[kEach];
  const auto fetch = [&](Index k) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = thread + i * kThreads;
      next_a[i] = a(at / kDepth, k + at % kDepth);
      next_b[i] = kAlongDepth ? b(k + at % kDepth, at / kDepth) : b(k + at / kCols, at % kCols);
    }
  };
  const auto put = [&](int to) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = thread + i * kThreads;
      stages.a[to][at / kDepth][at % kDepth] = next_a[i];
      if (kAlongDepth)
        stages.b[to][at % kDepth][at / kDepth] = next_b[i];
      else
        stages.b[to][at / kCols][at % kCols] = next_b[i];
    }
  };
  const Index steps = (depth + kDepth - 1) / kDepth;
  fetch(0);
  __syncthreads();  // whoever used the stages before is done
  put(0);
  for (Index s = 0; s < steps; ++s) {
    __syncthreads();
    if (s + 1 < steps) fetch((s + 1) * kDepth);
    add_stage(stages, int(s % 2), sums);
    if (s + 1 < steps) put(int((s + 1) % 2));
  }
}

/// body(row, column, sum) of each element of a tile.
template <typename Body>
__device__ __forceinline__ void for_sums(const Sums& sums, const Body& body) {
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        body(warp / 2 * kWarpRows + 16 * m + lane / 4 + i / 2 * 8,
             warp % 2 * kWarpCols + 8 * n + lane % 4 * 2 + i % 2, sums.of[m][n][i]);
}

__device__ float element_of(const FactorView<const float>& v, Index unit, Index j) {
  return j < v.rows.cols ? v.rows(unit, j) : v.last[unit];
}

/// V u's columns.
__global__ void __launch_bounds__(kThreads)
    product_kernel(FactorView<const float> v, MatrixView<const double> u, Index first,
                   MatrixView<float> w) {
  __shared__ Stages stages;
  const Index row0 = blockIdx.x * Index(kRows), col0 = blockIdx.y * Index(kCols);
  Sums sums;
  multiply_tile<false>(
      stages, u.rows,
      [&](int r, Index k) {
        return row0 + r < w.rows && k < u.rows ? element_of(v, row0 + r, k) : 0.0f;
      },
      [&](Index k, int c) {
        return col0 + c < w.cols && k < u.rows ? float(u(k, first + col0 + c)) : 0.0f;
      },
      sums);
  for_sums(sums, [&](int r, int c, float sum) {
    if (row0 + r < w.rows && col0 + c < w.cols) w(row0 + r, col0 + c) = sum;
  });
}

/// h V'.
__global__ void __launch_bounds__(kThreads)
    values_kernel(MatrixView<const double> h, FactorView<const float> v, MatrixView<float> z) {
  __shared__ Stages stages;
  const Index col0 = blockIdx.x * Index(kCols), row0 = blockIdx.y * Index(kRows);
  Sums sums;
  multiply_tile<true>(
      stages, h.cols,
      [&](int r, Index k) {
        return row0 + r < z.rows && k < h.cols ? float(h(row0 + r, k)) : 0.0f;
      },
      [&](Index k, int c) {
        return col0 + c < z.cols && k < h.cols ? element_of(v, col0 + c, k) : 0.0f;
      },
      sums);
  for_sums(sums, [&](int r, int c, float sum) {
    if (row0 + r < z.rows && col0 + c < z.cols) z(row0 + r, col0 + c) = sum;
  });
}

__global__ void __launch_bounds__(kThreads)
    widen_kernel(FactorView<const float> v, MatrixView<double> m) {
  for (Index r = blockIdx.x; r < m.rows; r += gridDim.x)
    for (Index c = threadIdx.x; c < m.cols; c += kThreads) m(r, c) = double(element_of(v, r, c));
}

}  // namespace

void multiply_rows(const Stream& stream, const FactorView<const float>& v,
                   MatrixView<const double> u, Range columns, MatrixView<float> w) {
  if (w.empty()) return;
  const dim3 grid(unsigned((w.rows + kRows - 1) / kRows), unsigned((w.cols + kCols - 1) / kCols));
  product_kernel<<<grid, kThreads, 0, stream.stream>>>(v, u, columns.begin, w);
  check_launch("product of factors");
}

void multiply_by_rows(const Stream& stream, MatrixView<const double> h,
                      const FactorView<const float>& v, MatrixView<float> z) {
  if (z.empty()) return;
  const dim3 grid(unsigned((z.cols + kCols - 1) / kCols), unsigned((z.rows + kRows - 1) / kRows));
  values_kernel<<<grid, kThreads, 0, stream.stream>>>(h, v, z);
  check_launch("values of factors");
}

void widen(const Stream& stream, const FactorView<const float>& v, MatrixView<double> m) {
  if (m.empty()) return;
  widen_kernel<<<blocks_for(m.rows, 1, 16 * stream.multiprocessors), kThreads, 0, stream.stream>>>(
      v, m);
  check_launch("widen rows");
}

}  // namespace norn::cuda
