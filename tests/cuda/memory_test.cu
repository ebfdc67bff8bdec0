// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU that is released while work is being captured, and copies of main memory.
#include "kernels/cuda/device/memory.h"
#include "norn/base/error.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
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

std::vector<std::byte> random_bytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = std::byte(random());
  return bytes;
}

// Rows of bytes that stand further apart than they are long.
struct Rows {
  std::size_t count = 0, bytes = 0, stride = 0;
  std::size_t size() const { return count * stride; }
};

// `to` with the rows of `from` in it, the bytes between them its own.
std::vector<std::byte> with_rows(std::vector<std::byte> to, const Rows& into,
                                 const std::vector<std::byte>& from, const Rows& out_of) {
  for (std::size_t r = 0; r < into.count; ++r)
    std::copy_n(from.begin() + std::ptrdiff_t(r * out_of.stride), into.bytes,
                to.begin() + std::ptrdiff_t(r * into.stride));
  return to;
}

// Small ones go straight, large ones through page-locked pieces; what was enqueued before comes
// first.
TEST(DeviceMemory, CopiesOfAnySizeAndShapeArriveWhole) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  constexpr std::size_t kPiece = cuda::StagingRing::kPieceBytes;
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreate(&stream), "cudaStreamCreate");
  {
    cuda::DeviceMemory memory(stream, true);
    for (const std::size_t most : {std::size_t(1), kPiece / 4, kPiece, 8 * kPiece})
      for (const std::size_t size : {most, most + 1, 1 + std::size_t(random() % most)}) {
        const std::vector<std::byte> sent = random_bytes(size, random);
        Buffer<std::byte> there(Index(size), memory);
        Buffer<std::byte> again(Index(size), memory);
        memory.fill_zero(there.data(), size);
        there.write(sent.data(), Index(size));
        memory.copy(again.data(), there.data(), size);
        std::vector<std::byte> back(size);
        again.read(back.data(), Index(size));
        EXPECT_TRUE(back == sent) << size << " bytes";
      }
    for (const std::size_t most : {std::size_t(16), std::size_t(3000), kPiece, kPiece + 100}) {
      const std::size_t bytes = most < kPiece ? 1 + random() % most : most;
      const Rows host{1 + std::size_t(random() % (3 * kPiece / bytes + 2)), bytes,
                      bytes + random() % 50};
      const Rows there{host.count, bytes, bytes + random() % 50};
      const std::vector<std::byte> sent = random_bytes(host.size(), random);
      const std::vector<std::byte> before = random_bytes(there.size(), random);
      Buffer<std::byte> buffer(Index(there.size()), memory);
      buffer.write(before.data(), Index(there.size()));
      memory.write_rows(buffer.data(), there.stride, sent.data(), host.stride, bytes, host.count);
      std::vector<std::byte> back(there.size());
      buffer.read(back.data(), Index(there.size()));
      EXPECT_TRUE(back == with_rows(before, there, sent, host))
          << host.count << " rows of " << bytes << " bytes, " << host.stride << " and "
          << there.stride << " apart";
      const std::vector<std::byte> other = random_bytes(host.size(), random);
      std::vector<std::byte> read = other;
      memory.read_rows(buffer.data(), there.stride, read.data(), host.stride, bytes, host.count);
      EXPECT_TRUE(read == with_rows(other, host, back, there)) << host.count << " rows read";
    }
  }
  cuda::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace
}  // namespace norn
