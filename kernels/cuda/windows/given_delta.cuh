// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/windows/signed_slopes.h"

namespace norn::cuda {

/// Where the delta of a source goes: dx = what its windows give, or dx += it. Or it goes through
/// the source's activation function at once: dx is that times the slope, with a bf16 copy unless
/// that is empty.
struct GivenDelta {
  MatrixView<float> dx;
  bool adds = false;
  bool slopes = false;
  SignedSlopes f{};
  MatrixView<const float> x{};  ///< the outputs of f
  MatrixView<Bfloat16> bf16{};

  GivenDelta row_range(Index first, Index rows) const {
    GivenDelta part = *this;
    part.dx = dx.row_range(first, rows);
    if (x.data != nullptr) part.x = x.row_range(first, rows);
    if (bf16.data != nullptr) part.bf16 = bf16.row_range(first, rows);
    return part;
  }
  /// What stands there, to which windows add.
  __device__ float before(Index e, Index at) const { return adds ? dx(e, at) : 0.0f; }
  /// Whether n elements that begin at a multiple of n may be written at once.
  template <int n>
  bool is_packable() const {
    return cuda::is_packable<n>(dx) && cuda::is_packable<n>(x) && cuda::is_packable<n>(bf16);
  }
  /// What is complete.
  template <int n>
  __device__ void write(Index e, Index at, Pack<float, n> delta) const {
    if (slopes) {
      const Pack<float, n> y = load<n>(x.row(e) + at);
#pragma unroll
      for (int i = 0; i < n; ++i) delta.value[i] *= f.slope(y.value[i]);
    }
    store<n>(dx.row(e) + at, delta);
    if (bf16.data != nullptr) store_bf16<n, 1>(bf16.row(e) + at, delta);
  }
  __device__ void write(Index e, Index at, float delta) const {
    write<1>(e, at, Pack<float, 1>{{delta}});
  }
};

}  // namespace norn::cuda
