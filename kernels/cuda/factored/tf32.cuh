// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Products of float32 on tensor cores, which read 11 binary digits: each operand is a sum of two
/// numbers that they read, of which three products are made. What is left out is 2^-22 of a term.
namespace norn::cuda {

/// Two numbers of tf32 whose sum is x but for 2^-22 of it.
struct Split {
  std::uint32_t high, low;
};

// To the nearest, halves away from 0, by integers: conversions are slow. Tensor cores pass over the
// last 13 bits of an operand, so those of `low` may stay.
constexpr std::uint32_t kTf32Half = 0x1000, kTf32Read = 0xFFFFE000;

/// An operand that tensor cores read as split(x).high, and from which low_of() makes the other.
__device__ __forceinline__ std::uint32_t operand_of(float x) {
  return __float_as_uint(x) + kTf32Half;
}
__device__ __forceinline__ std::uint32_t low_of(std::uint32_t operand) {
  const float x = __uint_as_float(operand - kTf32Half);
  return __float_as_uint(x - __uint_as_float(operand & kTf32Read)) + kTf32Half;
}
__device__ __forceinline__ Split split(float x) {
  const std::uint32_t operand = operand_of(x);
  return {operand & kTf32Read, low_of(operand)};
}

__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace norn::cuda
