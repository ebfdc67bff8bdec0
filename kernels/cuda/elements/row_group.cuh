// SPDX-License-Identifier: Apache-2.0
// Sums over rows: a warp or a block works on one row, in an order that the row's length alone
// fixes.
#pragma once

#include "kernels/cuda/elements/elements.cuh"

namespace norn::cuda {

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// The combination of x over kThreads threads (of threadIdx.x: a power of two, at least a warp), by
/// a fixed tree; every thread gets it. `combine` is commutative.
template <int kThreads, typename T, typename Combine>
__device__ __forceinline__ T reduce_threads(T x, const Combine& combine) {
  constexpr int kWarps = kThreads / 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = combine(x, T(__shfl_xor_sync(0xFFFFFFFFu, x, step)));
  if constexpr (kWarps > 1) {
    __shared__ T part[kWarps];
    __syncthreads();  // the last call's parts are read
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[threadIdx.x % kWarps];
#pragma unroll
    for (int step = kWarps / 2; step > 0; step /= 2)
      x = combine(x, T(__shfl_xor_sync(0xFFFFFFFFu, x, step)));
  }
  return x;
}

/// A kernel of row groups has blocks of kThreads x rows_of_block(kThreads) threads.
__host__ __device__ constexpr int rows_of_block(int threads) {
  return threads == 32 ? 8 : 1;
}

/// The row of this thread's group; it may be beyond the matrix where a group is a warp.
template <int kThreads>
__device__ __forceinline__ Index row_of_group() {
  return Index(blockIdx.x) * rows_of_block(kThreads) + threadIdx.y;
}

/// The longest row of a group; the largest group takes all longer ones.
template <int kThreads>
inline constexpr Index kLongestRow = kThreads == 32 ? 1024
                                                    : (kThreads == 512 ? 16384 : Index(1) << 62);

/// Calls start(threads, launch) with the number of threads for a row as a constant type: it depends
/// on the row's length only.
template <typename Start>
void with_row_threads(Index rows, Index cols, const Start& start) {
  const auto call = [&](auto threads) {
    constexpr int kThreads = decltype(threads)::value;
    constexpr int kRows = rows_of_block(kThreads);
    start(threads,
          Launch{dim3(unsigned((rows + kRows - 1) / kRows)), dim3(unsigned(kThreads), kRows)});
  };
  if (rows == 0) return;
  if (cols <= kLongestRow<32>)
    call(std::integral_constant<int, 32>{});
  else if (cols <= kLongestRow<512>)
    call(std::integral_constant<int, 512>{});
  else
    call(std::integral_constant<int, 1024>{});
}

/// Sum of x^2 over a row, in float64.
template <int kThreads, bool kPacked>
__device__ __forceinline__ double sum_of_squares(const float* row, Index cols) {
  double sum = 0;
#pragma unroll 4
  for (Index c = Index(threadIdx.x) * 4; c < cols; c += 4 * kThreads) {
    const Pack<float, 4> x = load_four<kPacked>(row, c, cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum += double(x.value[i]) * double(x.value[i]);
  }
  return reduce_threads<kThreads>(sum, Plus{});
}

}  // namespace norn::cuda
