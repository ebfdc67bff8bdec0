// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/bfloat16.h"
#include "norn/tensor/views.h"

#include <cstdint>

/// Accesses of four neighbours at a time: one instruction where the address allows it.
namespace norn::cuda {

/// Whether every fourth element of each row stands where four are one access.
template <typename T>
bool is_aligned_by_four(const MatrixView<T>& m) {
  constexpr std::uintptr_t kBytes = 4 * sizeof(T);
  return reinterpret_cast<std::uintptr_t>(m.data) % kBytes == 0 && m.stride % 4 == 0;
}

/// x[0, 4) = row[at, at + 4); `rest` beyond `count`.
__device__ inline void load_four(const float* row, int at, int count, bool is_aligned, float rest,
                                 float (&x)[4]) {
  if (is_aligned && at + 4 <= count) {
    const float4 four = *reinterpret_cast<const float4*>(row + at);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) x[j] = at + j < count ? row[at + j] : rest;
}

__device__ inline void store_four(const float (&x)[4], int at, int count, bool is_aligned,
                                  float* row) {
  if (is_aligned && at + 4 <= count) {
    *reinterpret_cast<float4*>(row + at) = make_float4(x[0], x[1], x[2], x[3]);
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (at + j < count) row[at + j] = x[j];
}

/// Two floats as bfloat16, rounded to nearest, the first in the lower half.
__device__ inline std::uint32_t rounded_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ inline void store_four_rounded(const float (&x)[4], int at, int count, bool is_aligned,
                                          Bfloat16* row) {
  if (is_aligned && at + 4 <= count) {
    *reinterpret_cast<uint2*>(row + at) =
        make_uint2(rounded_pair(x[0], x[1]), rounded_pair(x[2], x[3]));
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (at + j < count) row[at + j] = Bfloat16::rounded(x[j]);
}

}  // namespace norn::cuda
