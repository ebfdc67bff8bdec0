// SPDX-License-Identifier: Apache-2.0
// One step of an update rule on the GPU: dense, sparse and fused updates share it and so give the
// same bits.
#pragma once

#include "kernels/update_rule.h"

#include <cstdint>

namespace norn::cuda {

/// Divides and takes square roots as the operators do, bit for bit, but without their branches, so
/// that the steps of several weights overlap. Where it cannot, `exact` is false afterwards: for
/// operands and results that training hardly meets (subnormal quotients, infinities, NaN ...).
class QuickMaths {
 public:
  /// Exact for normal quotients and zeros, 2^-126 <= b <= 2^40 and |a| < 2^60, if no value on the
  /// way overflows.
  __device__ float divide(float a, float b) {
    // Newton's step for 1 / b, then the remainder of the quotient corrects it. Scaled up, so that
    // the remainder of a small quotient is a float, too.
    const float scaled = a * 0x1p60f;
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    inverse = __fmaf_rn(inverse, __fmaf_rn(-b, inverse, 1.0f), inverse);
    const float near = scaled * inverse;
    const float quotient = __fmaf_rn(-inverse, __fmaf_rn(b, near, -scaled), near);
    const float result = quotient * 0x1p-60f;
    exact = exact && result * 0x1p60f == quotient &&
            __float_as_uint(b) <= __float_as_uint(0x1p40f);  // nor negative, nor NaN
    return result;
  }
  /// Exact for 0 <= x <= 2^79.
  __device__ float sqrt(float x) {
    const float scaled = x * 0x1p48f;
    float inverse;  // of the root; for zero just not infinite
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fmaxf(scaled, 0x1p-110f)));
    const float near = scaled * inverse;
    const float root = __fmaf_rn(__fmaf_rn(-near, near, scaled), 0.5f * inverse, near);
    exact = exact && __float_as_uint(x) <= __float_as_uint(0x1p79f);
    return root * 0x1p-24f;
  }

  bool exact = true;  ///< whether all results so far have the operators' bits
};

/// Arrays that hold the state of some weights, one at least: there are none of size 0.
template <class Rule>
inline constexpr int kHeldSlots = Rule::slots > 0 ? Rule::slots : 1;

/// Holds gradients within the step's clip, where it has one: a branch that all threads take alike.
template <int n>
__device__ __forceinline__ void clip_some(const UpdateStep& step, float (&g)[n]) {
  if (step.clip > 0.0f) {
#pragma unroll
    for (int i = 0; i < n; ++i) g[i] = clipped(g[i], step.clip);
  }
}

/// One step of weight i of those whose state is `state`: an array for each of the slots.
template <int n, class Rule, int kHeld, class Maths = RuleMaths>
__device__ __forceinline__ void step_one(const Rule& rule, const UpdateStep& step, float& w,
                                         float g, float (&state)[kHeld][n], int i,
                                         Maths&& maths = {}) {
  static_assert(kHeld == kHeldSlots<Rule>);
  float slots[kHeld];
#pragma unroll
  for (int s = 0; s < kHeld; ++s) slots[s] = state[s][i];
  rule.step(w, g, slots, step, maths);
#pragma unroll
  for (int s = 0; s < Rule::slots; ++s) state[s][i] = slots[s];
}

/// One step of n weights, with the bits of n times step_one().
template <int n, class Rule, int kHeld>
__device__ __forceinline__ void step_some(const Rule& rule, const UpdateStep& step, float (&w)[n],
                                          const float (&g)[n], float (&state)[kHeld][n]) {
  QuickMaths maths;
  float weight[n], next[kHeld][n];
#pragma unroll
  for (int i = 0; i < n; ++i) {
    weight[i] = w[i];
#pragma unroll
    for (int s = 0; s < kHeld; ++s) next[s][i] = state[s][i];
    step_one(rule, step, weight[i], g[i], next, i, maths);
  }
  if (__builtin_expect(maths.exact, 1)) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      w[i] = weight[i];
#pragma unroll
      for (int s = 0; s < Rule::slots; ++s) state[s][i] = next[s][i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) step_one(rule, step, w[i], g[i], state, i);
  }
}

}  // namespace norn::cuda
