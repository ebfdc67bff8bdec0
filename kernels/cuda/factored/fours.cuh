// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

/// Four elements of a row at a time, of which some may lie beyond its end.
namespace norn::cuda {

/// How many of the four from `from` on a row of this size has.
__device__ __forceinline__ int present(Index size, Index from) {
  return int(min(max(size - from, Index(0)), Index(4)));
}

__device__ __forceinline__ float part_of(const float4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

/// Four elements of a row, of which those beyond `count` are 0. kWhole: all are there and aligned.
template <bool kWhole>
__device__ __forceinline__ float4 load_four(const float* from, int count) {
  if constexpr (kWhole) {
    return *reinterpret_cast<const float4*>(from);
  } else {
    return make_float4(count > 0 ? from[0] : 0.0f, count > 1 ? from[1] : 0.0f,
                       count > 2 ? from[2] : 0.0f, count > 3 ? from[3] : 0.0f);
  }
}

template <bool kWhole>
__device__ __forceinline__ void store_four(float* to, const float4& x, int count) {
  if constexpr (kWhole) {
    *reinterpret_cast<float4*>(to) = x;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < count) to[i] = part_of(x, i);
  }
}

}  // namespace norn::cuda
