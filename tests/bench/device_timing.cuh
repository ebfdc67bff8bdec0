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

/// Median seconds of work(run), runs being numbered from -2 on: two that are not counted. All are
/// queued, so that the device does not wait for the host between them.
template <class Work>
double seconds_of(int runs, const Work& work) {
  std::vector<cudaEvent_t> marks(std::size_t(runs) + 1);
  for (cudaEvent_t& mark : marks) cuda::check(cudaEventCreate(&mark), "cudaEventCreate");
  work(-2);
  work(-1);
  cuda::check(cudaEventRecord(marks.front()), "cudaEventRecord");
  for (int run = 0; run < runs; ++run) {
    work(run);
    cuda::check(cudaEventRecord(marks[std::size_t(run) + 1]), "cudaEventRecord");
  }
  cuda::check(cudaEventSynchronize(marks.back()), "cudaEventSynchronize");
  std::vector<float> times(std::size_t(runs), 0.0f);
  for (std::size_t run = 0; run < times.size(); ++run)
    cuda::check(cudaEventElapsedTime(&times[run], marks[run], marks[run + 1]),
                "cudaEventElapsedTime");
  for (cudaEvent_t mark : marks) cudaEventDestroy(mark);
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return double(times[std::size_t(runs / 2)]) * 1e-3;
}

}  // namespace norn::bench
