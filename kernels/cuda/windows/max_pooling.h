// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/pooling.h"

#include <cstddef>

/// The largest unit of windows: PoolingKernels' forward() and backward() of one source.
namespace norn::cuda {

/// Whether `value`, which comes later, takes the place of the largest so far.
__device__ __forceinline__ bool displaces(float value, float largest) {
  return !(value <= largest) && largest == largest;
}

/// y = the largest unit of each window, or y += it.
void pool_largest(const Stream& stream, const PoolingSource& source, const GivenDelta& to);
/// `kept` holds what is found on the way.
void spread_largest(const Stream& stream, Workspace<std::byte>& kept, const PoolingSource& source,
                    const DenseOperand& delta, const GivenDelta& to);

/// What may be kept on the way: so many examples at a time that it stays in the cache.
inline constexpr Index kKeptBytes = Index(16) << 20;

template <typename T>
MatrixView<T> reserve_matrix(Workspace<std::byte>& kept, Index rows, Index cols) {
  std::byte* data = kept.reserve(rows * cols * Index(sizeof(T)));
  return {reinterpret_cast<T*>(data), rows, cols, cols};
}

}  // namespace norn::cuda
