// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/memory.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"
#include "src/tensor/buffer.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace norn {

/// What tests of products of windows draw: numbers that bfloat16 holds, so that no precision rounds
/// them, in main memory and in a GPU's.
class WindowDraws {
 protected:
  WindowDraws() {
    const unsigned seed = std::random_device{}();
    ::testing::Test::RecordProperty("seed", std::to_string(seed));
    random_.seed(seed);
  }
  Index below(Index n) { return Index(random_() % std::uint64_t(n)); }
  Index one_of(const std::vector<Index>& choices) {
    return choices[std::size_t(below(Index(choices.size())))];
  }
  std::vector<float> numbers(Index count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = Bfloat16::rounded(normal(random_)).value();
    return values;
  }

  struct Matrix {
    Index rows, cols;
    std::vector<float> host;
    Buffer<float> gpu;
    double operator()(Index r, Index c) const { return double(host[std::size_t(r * cols + c)]); }
    MatrixView<float> view() { return {gpu.data(), rows, cols, cols}; }
    void fetch() { gpu.read(host.data(), gpu.size()); }
  };
  Matrix make(Index rows, Index cols) {
    Matrix m{rows, cols, numbers(rows * cols), Buffer<float>(rows * cols, memory_)};
    m.gpu.write(m.host.data(), m.gpu.size());
    return m;
  }

  cuda::DeviceMemory memory_{nullptr, true};
  std::mt19937_64 random_;
};

}  // namespace norn
