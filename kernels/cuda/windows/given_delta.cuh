// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/windows/operand.cuh"
#include "kernels/cuda/windows/signed_slopes.h"

namespace norn::cuda {

/// Where the delta of a source goes: dx = what its windows give, or dx += it. Or it goes through
/// the source's activation function at once: dx is that times the slope. It is written as floats,
/// in bf16 or as both: what has no memory is not, but dx has the shape all the same. What is added
/// to has floats.
struct GivenDelta {
  MatrixView<float> dx;
  bool adds = false;
  bool slopes = false;
  SignedSlopes f{};
  MatrixView<const float> x{};  ///< the outputs of f
  MatrixView<Bfloat16> bf16{};
  MatrixView<const Bfloat16> x_bf16{};  ///< the outputs of f, where x has no memory

  GivenDelta row_range(Index first, Index rows) const {
    GivenDelta part = *this;
    part.dx = rows_or_absent(dx, first, rows);
    part.x = rows_or_absent(x, first, rows);
    part.bf16 = rows_or_absent(bf16, first, rows);
    part.x_bf16 = rows_or_absent(x_bf16, first, rows);
    return part;
  }
  /// What stands there, to which windows add.
  template <int n>
  __device__ Pack<float, n> before(Index e, Index at) const {
    return adds ? load<n>(dx.row(e) + at) : Pack<float, n>{};
  }
  __device__ float before(Index e, Index at) const { return before<1>(e, at).value[0]; }
  /// Whether n elements that begin at a multiple of n may be written at once.
  template <int n>
  bool is_packable() const {
    return is_packable_or_absent<n>(dx) && is_packable_or_absent<n>(x) &&
           is_packable_or_absent<n>(bf16) && is_packable_or_absent<n>(x_bf16);
  }
  /// What is complete.
  template <int n>
  __device__ void write(Index e, Index at, Pack<float, n> delta) const {
    if (slopes) {
      const Pack<float, n> y = load_either<n>(x, x_bf16, e, at);
#pragma unroll
      for (int i = 0; i < n; ++i) delta.value[i] *= f.slope(y.value[i]);
    }
    if (dx.data != nullptr) store<n>(dx.row(e) + at, delta);
    if (bf16.data != nullptr) store_bf16<n, 1>(bf16.row(e) + at, delta);
  }
  /// What is complete but for what stands there.
  template <int n>
  __device__ void add(Index e, Index at, Pack<float, n> value) const {
    if (adds) {
      const Pack<float, n> stands = load<n>(dx.row(e) + at);
#pragma unroll
      for (int i = 0; i < n; ++i) value.value[i] = stands.value[i] + value.value[i];
    }
    write<n>(e, at, value);
  }
  __device__ void add(Index e, Index at, float value) const {
    add<1>(e, at, Pack<float, 1>{{value}});
  }
  __device__ void write(Index e, Index at, float delta) const {
    write<1>(e, at, Pack<float, 1>{{delta}});
  }
};

}  // namespace norn::cuda
