// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/families.h"
#include "kernels/fused.h"

#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

/// What the tests of fused products in bfloat16 share. Rows have padding of NaN, which must not be
/// read into results nor be written.
namespace norn {

inline constexpr Index kPadding = 8;

/// A matrix with padded rows on the host and on the GPU.
template <typename T>
struct Padded {
  Padded() = default;
  Padded(Index all_rows, Index all_cols, Memory& memory)
      : rows(all_rows),
        cols(all_cols),
        host(std::size_t(all_rows * (all_cols + kPadding)), poison()),
        gpu(all_rows * (all_cols + kPadding), memory) {}
  static T poison() {
    if constexpr (std::is_same_v<T, float>)
      return std::numeric_limits<float>::quiet_NaN();
    else if constexpr (std::is_same_v<T, Bfloat16>)
      return Bfloat16{0x7FC1};
    else
      return T(0x5A5A);
  }
  T& operator()(Index r, Index c) { return host[std::size_t(r * (cols + kPadding) + c)]; }
  void send() { gpu.write(host.data(), gpu.size()); }
  void fetch() { gpu.read(host.data(), gpu.size()); }
  MatrixView<T> view() { return {gpu.data(), rows, cols, cols + kPadding}; }
  bool padding_is_intact() {
    const T expected = poison();
    for (Index r = 0; r < rows; ++r)
      for (Index c = cols; c < cols + kPadding; ++c)
        if (std::memcmp(&(*this)(r, c), &expected, sizeof(T)) != 0) return false;
    return true;
  }
  bool same_bits(const Padded& other) const {
    return std::memcmp(host.data(), other.host.data(), host.size() * sizeof(T)) == 0;
  }
  Index rows = 0;
  Index cols = 0;
  std::vector<T> host;
  Buffer<T> gpu;
};

struct Shape {
  Index examples;
  Index units;
  Index width;
};

class FusedTest : public ::testing::Test {
 protected:
  FusedTest() {
    std::printf("seed %u\n", seed_);
    random_.seed(seed_);
  }
  Padded<Bfloat16> random_bfloat16(Index rows, Index cols, float deviation) {
    Padded<Bfloat16> m(rows, cols, memory_);
    std::normal_distribution<float> normal(0.0f, deviation);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = Bfloat16::rounded(normal(random_));
    m.send();
    return m;
  }
  Padded<float> random_float(Index rows, Index cols, float low, float high) {
    Padded<float> m(rows, cols, memory_);
    std::uniform_real_distribution<float> uniform(low, high);
    for (Index r = 0; r < rows; ++r)
      for (Index c = 0; c < cols; ++c) m(r, c) = uniform(random_);
    m.send();
    return m;
  }
  template <typename T>
  Buffer<T> on_gpu(const std::vector<T>& values) {
    Buffer<T> buffer(Index(values.size()), memory_);
    buffer.write(values.data(), buffer.size());
    return buffer;
  }
  std::unique_ptr<FusedKernels> make(Precision precision = Precision::bf16) {
    int count = 0;
    cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0),
                "cudaDeviceGetAttribute");
    return cuda::make_fused({nullptr, memory_, precision, count});
  }

  cuda::DeviceMemory memory_{nullptr, true};
  const unsigned seed_ = std::random_device()();
  std::mt19937 random_;
};

}  // namespace norn
