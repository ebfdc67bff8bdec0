// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU that is released while work is being captured.
#include "kernels/cuda/device/memory.h"
#include "norn/base/error.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

__global__ void copy_words(const std::uint32_t* from, std::uint32_t* to, int count) {
  for (int i = int(threadIdx.x); i < count; i += int(blockDim.x)) to[i] = from[i] + 1;
}

/// As a kernel family does whose workspace grows in the middle of a step.
bool is_allocated(const void* data) {
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, data);
  cudaGetLastError();
  return status == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

// A piece of the pool is given back for memory that is wanted elsewhere, but not while a graph that
// may use it is captured; while the next one is, it is.
TEST(DeviceMemory, WantOfMemoryLeavesACapturedGraphWhatItUses) {
  constexpr std::size_t kBytes = 1 << 20, kTooMany = std::size_t(1) << 50;
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  {
    cuda::DeviceMemory memory(stream, true);
    void* const before = memory.allocate(kBytes);
    void* const within = memory.allocate(2 * kBytes);
    memory.release(before, kBytes);
    const auto want_too_much = [&](const std::function<void()>& first) {
      cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin");
      first();
      EXPECT_THROW(memory.allocate(kTooMany), DeviceError);
      cudaGraph_t graph = nullptr;
      cuda::check(cudaStreamEndCapture(stream, &graph), "end");
      cudaGraphDestroy(graph);
    };
    want_too_much([&] { memory.release(within, 2 * kBytes); });
    EXPECT_FALSE(is_allocated(before));
    EXPECT_TRUE(is_allocated(within));
    want_too_much([] {});
    EXPECT_FALSE(is_allocated(within));
  }
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TEST(DeviceMemory, WhatACapturedGraphUsesOutlivesItsRelease) {
  constexpr int kWords = 1 << 20;
  for (bool pooled : {false, true}) {
    cudaStream_t stream = nullptr;
    cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
    {
      cuda::DeviceMemory memory(stream, pooled);
      Buffer<std::uint32_t> result(kWords, memory);
      cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin");
      for (int growth : {1, 2}) {
        Buffer<std::uint32_t> scratch(growth * kWords, memory);
        scratch.fill_zero();
        copy_words<<<1, 1024, 0, stream>>>(scratch.data(), result.data(), kWords);
      }
      cudaGraph_t graph = nullptr;
      cuda::check(cudaStreamEndCapture(stream, &graph), "end");
      cudaGraphExec_t work = nullptr;
      cuda::check(cudaGraphInstantiate(&work, graph, 0), "instantiate");
      cuda::check(cudaGraphLaunch(work, stream), "launch");
      std::vector<std::uint32_t> words(kWords);
      result.read(words.data(), kWords);
      EXPECT_EQ(words, std::vector<std::uint32_t>(kWords, 1));
      cudaGraphExecDestroy(work);
      cudaGraphDestroy(graph);
    }
    cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
}

}  // namespace
}  // namespace norn
