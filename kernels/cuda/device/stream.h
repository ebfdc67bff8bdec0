// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"
#include "norn/kernels/precision.h"
#include "src/tensor/buffer.h"

#include <algorithm>

/// What every family of CUDA kernels is made with.
namespace norn::cuda {

struct Stream {
  cudaStream_t stream = nullptr;  ///< all kernels of a device run on this one, in order
  Memory& memory;                 ///< of the device
  Precision precision = Precision::tf32;
  int multiprocessors = 1;
  const int* left_free = nullptr;  ///< of them, as WorkQueue::leave_free() says
};

/// A buffer of the device that only grows, for what a family needs between its kernels. Contents
/// are lost when it grows; work that is enqueued on the old one is still in order.
template <typename T>
class Workspace {
 public:
  explicit Workspace(Memory& memory) : memory_(&memory) {}
  T* reserve(Index size) {
    if (buffer_.size() < size) buffer_ = Buffer<T>(size + size / 4, *memory_);
    return buffer_.data();
  }
  T* data() { return buffer_.data(); }

 private:
  Memory* memory_;
  Buffer<T> buffer_;
};

/// Blocks of `threads` threads that cover `count` elements, at most `limit` of them: kernels go on
/// with a stride of the whole grid.
inline unsigned blocks_for(Index count, int threads, Index limit) {
  return unsigned(std::clamp<Index>((count + threads - 1) / threads, 1, std::max<Index>(1, limit)));
}

}  // namespace norn::cuda
