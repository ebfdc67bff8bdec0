// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"
#include "norn/base/types.h"
#include "src/base/bfloat16.h"

#include <algorithm>
#include <cstdint>
#include <vector>

/// What benchmark programs for a GPU have in common.
namespace norn::bench {

/// Numbers that look random, as floats and in bf16; either may be null.
__global__ inline void fill(float* values, Bfloat16* bf16, Index size, float scale, float offset) {
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += step) {
    std::uint64_t x = (std::uint64_t(i) + std::uint64_t(size)) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    const float value = offset + scale * (float(int(x >> 40 & 0xFFFF)) - 32768.0f) / 32768.0f;
    if (values != nullptr) values[i] = value;
    if (bf16 != nullptr) bf16[i] = Bfloat16::rounded(value);
  }
}

/// Median seconds of work(run), runs being numbered from -2 on: two that are not counted.
template <class Work>
double seconds_of(int runs, const Work& work) {
  cudaEvent_t begin, end;
  cuda::check(cudaEventCreate(&begin), "cudaEventCreate");
  cuda::check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int run = -2; run < runs; ++run) {
    cuda::check(cudaEventRecord(begin), "cudaEventRecord");
    work(run);
    cuda::check(cudaEventRecord(end), "cudaEventRecord");
    cuda::check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (run >= 0) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return double(times[std::size_t(runs / 2)]) * 1e-3;
}

}  // namespace norn::bench
