// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

#include <cstdint>

/// Accesses of four neighbours: one instruction, two, or four, as the addresses allow.
namespace norn::cuda {

/// How many of the four elements from every fourth column on are one access, in every row.
template <typename T>
int access_width(const MatrixView<T>& m) {
  for (int width : {4, 2})
    if (reinterpret_cast<std::uintptr_t>(m.data) % (width * sizeof(T)) == 0 &&
        m.stride % width == 0)
      return width;
  return 1;
}

/// x[0, 4) = row[at, at + 4); `rest` beyond `count`.
__device__ inline void load_four(const float* row, int at, int count, int width, float rest,
                                 float (&x)[4]) {
  if (width == 4 && at + 4 <= count) {
    const float4 four = *reinterpret_cast<const float4*>(row + at);
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
  } else if (width == 2 && at + 4 <= count) {
    const float2* pair = reinterpret_cast<const float2*>(row + at);
    const float2 low = pair[0], high = pair[1];
    x[0] = low.x, x[1] = low.y, x[2] = high.x, x[3] = high.y;
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = at + j < count ? row[at + j] : rest;
  }
}

__device__ inline void store_four(const float (&x)[4], int at, int count, int width, float* row) {
  if (width == 4 && at + 4 <= count) {
    *reinterpret_cast<float4*>(row + at) = make_float4(x[0], x[1], x[2], x[3]);
  } else if (width == 2 && at + 4 <= count) {
    float2* pair = reinterpret_cast<float2*>(row + at);
    pair[0] = make_float2(x[0], x[1]);
    pair[1] = make_float2(x[2], x[3]);
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (at + j < count) row[at + j] = x[j];
  }
}

/// Two floats as bfloat16, rounded to nearest, the first in the lower half.
__device__ inline std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ inline void store_four_bf16(const float (&x)[4], int at, int count, int width,
                                       Bfloat16* row) {
  const std::uint32_t low = bf16_pair(x[0], x[1]), high = bf16_pair(x[2], x[3]);
  if (width == 4 && at + 4 <= count) {
    *reinterpret_cast<uint2*>(row + at) = make_uint2(low, high);
  } else if (width == 2 && at + 4 <= count) {
    std::uint32_t* pair = reinterpret_cast<std::uint32_t*>(row + at);
    pair[0] = low;
    pair[1] = high;
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (at + j < count)
        row[at + j].bits = std::uint16_t((j < 2 ? low : high) >> (j % 2 == 0 ? 0 : 16));
  }
}

}  // namespace norn::cuda
