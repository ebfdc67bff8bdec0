// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

/// Elementary functions for kernels. On the host the float versions are branch-free polynomials
/// that compilers vectorise (accurate to a few units in the last place: the bounds are in
/// tests/kernels/math_test.cpp); double goes to the standard library, CUDA mostly to its own. All
/// of them hand on NaN.
namespace norn::math {

NORN_HD inline double exp(double x) {
  return std::exp(x);
}
NORN_HD inline double exp_nonpositive(double x) {
  return std::exp(x);
}
NORN_HD inline double expm1(double x) {
  return std::expm1(x);
}
NORN_HD inline double tanh(double x) {
  return std::tanh(x);
}
NORN_HD inline double log(double x) {
  return std::log(x);
}
NORN_HD inline double sqrt(double x) {
  return std::sqrt(x);
}
NORN_HD inline float sqrt(float x) {
  return std::sqrt(x);
}

/// To a few units in the last place.
NORN_HD inline float pow(float x, float y) {
  return std::pow(x, y);
}

/// The larger one; b when either is NaN.
template <typename T>
NORN_HD inline T max(T a, T b) {
  return a > b ? a : b;
}
/// The smaller one; b when either is NaN.
template <typename T>
NORN_HD inline T min(T a, T b) {
  return a < b ? a : b;
}
NORN_HD inline double abs(double a) {
  return std::fabs(a);
}
NORN_HD inline float abs(float a) {
  return std::fabs(a);
}

/// a * b + c, rounded once where the processor can.
NORN_HD inline float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#elif defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

#ifdef __CUDA_ARCH__
__device__ inline float exp(float x) {
  return expf(x);
}
__device__ inline float exp_nonpositive(float x) {
  return expf(x);
}
__device__ inline float log(float x) {
  return logf(x);
}
__device__ inline float expm1(float x) {
  return expm1f(x);
}
__device__ inline float tanh(float x) {
  return tanhf(x);
}
#else
/// An argument x of exp in [-87, 87], cut as x = n ln 2 + r with a whole n and |r| <= ln 2 / 2.
struct ReducedArgument {
  float r;
  float scale;  ///< 2^n
};

inline ReducedArgument reduce_by_ln2(float x) {
  const float shifted =
      multiply_add(x, 1.44269504088896341f, 12582912.0f);  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0f;
  float r = multiply_add(n, -0.693359375f, x);
  r = multiply_add(n, 2.12194440e-4f, r);
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, 4);
  bits = (bits - 0x4B400000u + 127u) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return {r, scale};
}

/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2 (coefficients of Cephes' expf, S. Moshier).
/// Pairs of terms are combined (Estrin's scheme): a chain of dependent steps would wait for each
/// one.
inline float exp_tail(float r) {
  const float square = r * r;
  const float high = multiply_add(1.9875691500e-4f, r, 1.3981999507e-3f);
  const float middle = multiply_add(8.3334519073e-3f, r, 4.1665795894e-2f);
  const float low = multiply_add(1.6666665459e-1f, r, 5.0000001201e-1f);
  return multiply_add(multiply_add(high, square, middle), square, low);
}

/// e^x for x <= 87. Arguments below -87 give the value at -87.
inline float exp_below_87(float x) {
  const ReducedArgument a = reduce_by_ln2(x < -87.0f ? -87.0f : x);
  return multiply_add(exp_tail(a.r), a.r * a.r, a.r + 1.0f) * a.scale;
}

/// e^x. Arguments beyond +-87 give the value at +-87.
inline float exp(float x) {
  return exp_below_87(x > 87.0f ? 87.0f : x);
}

/// e^x for x <= 0.
inline float exp_nonpositive(float x) {
  return exp_below_87(x);
}

/// e^x - 1 without loss near zero. Arguments beyond +-87 give the value at +-87.
inline float expm1(float x) {
  x = x < -87.0f ? -87.0f : x;
  const ReducedArgument a = reduce_by_ln2(x > 87.0f ? 87.0f : x);
  const float near = multiply_add(exp_tail(a.r), a.r * a.r, a.r);
  return multiply_add(near, a.scale, a.scale - 1.0f);
}

/// ln x: x = 2^e m with m in [sqrt(1/2), sqrt(2)), then a polynomial in m - 1 (coefficients of
/// Cephes' logf). Zero gives -inf, a negative argument NaN.
inline float log(float x) {
  const bool is_small = x < 1.17549435e-38f;  // subnormal: 2^23 makes it normal
  const float normal = is_small ? x * 8388608.0f : x;
  std::uint32_t bits;
  std::memcpy(&bits, &normal, 4);
  const std::int32_t exponent = std::int32_t(bits - 0x3F3504F3u) >> 23;  // 0x3F3504F3: sqrt(1/2)
  bits -= std::uint32_t(exponent) << 23;
  float m;
  std::memcpy(&m, &bits, 4);
  const float e = float(exponent) - (is_small ? 23.0f : 0.0f);
  const float f = m - 1.0f;
  const float square = f * f;
  float p = 7.0376836292e-2f;
  p = multiply_add(p, f, -1.1514610310e-1f);
  p = multiply_add(p, f, 1.1676998740e-1f);
  p = multiply_add(p, f, -1.2420140846e-1f);
  p = multiply_add(p, f, 1.4249322787e-1f);
  p = multiply_add(p, f, -1.6668057665e-1f);
  p = multiply_add(p, f, 2.0000714765e-1f);
  p = multiply_add(p, f, -2.4999993993e-1f);
  p = multiply_add(p, f, 3.3333331174e-1f);
  float tail = multiply_add(e, -2.12194440e-4f, p * f * square);
  tail = multiply_add(square, -0.5f, tail);
  const float result = multiply_add(e, 0.693359375f, f + tail);
  const float finite_or_zero = x == 0.0f ? -HUGE_VALF : result;
  const float in_domain = x < HUGE_VALF ? finite_or_zero : x;  // inf and NaN stay
  return x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : in_domain;
}

/// tanh x: (1 - e) / (1 + e) with e = exp(-2|x|), and near zero an odd polynomial (coefficients of
/// Cephes' tanhf).
inline float tanh(float x) {
  const float a = abs(x);
  const float e = exp_nonpositive(-2.0f * a);
  const float far = (1.0f - e) / (1.0f + e);
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = multiply_add(p, s, 2.06390887954e-2f);
  p = multiply_add(p, s, -5.37397155531e-2f);
  p = multiply_add(p, s, 1.33314422036e-1f);
  p = multiply_add(p, s, -3.33332819422e-1f);
  const float near = multiply_add(p * s, x, x);
  const float signed_far = x < 0.0f ? -far : far;
  return a < 0.625f ? near : signed_far;
}
#endif

/// log(1 + e) for e in [0, 1]: what softplus needs.
NORN_HD inline double log1p_unit(double e) {
  return std::log1p(e);
}
NORN_HD inline float log1p_unit(float e) {
  // Chebyshev interpolation of log1p(e) / e on [0, 1], degree 9: relative error below 1.6e-7
  // (tests/kernels/math_test.cpp).
  // Pairs of terms are combined (Estrin's scheme).
  const float e2 = e * e;
  const float e4 = e2 * e2;
  const float p01 = multiply_add(-0.49999892711639404f, e, 1.0f);
  const float p23 = multiply_add(-0.24951615929603577f, e, 0.33329710364341736f);
  const float p45 = multiply_add(-0.1526966691017151f, e, 0.1966327428817749f);
  const float p67 = multiply_add(-0.056373611092567444f, e, 0.10543623566627502f);
  const float p89 = multiply_add(-0.0031760570127516985f, e, 0.019542526453733444f);
  const float p03 = multiply_add(p23, e2, p01);
  const float p47 = multiply_add(p67, e2, p45);
  const float p = multiply_add(multiply_add(p89, e4, p47), e4, p03);
  return p * e;
}

/// 1 / x for x in [1, 2].
NORN_HD inline double reciprocal_unit(double x) {
  return 1.0 / x;
}
NORN_HD inline float reciprocal_unit(float x) {
#ifdef __CUDA_ARCH__
  // An estimate and one step of Newton's: within a unit in the last place, without the branches
  // that a division has for operands out of this range.
  float estimate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
  return __fmaf_rn(estimate, __fmaf_rn(-x, estimate, 1.0f), estimate);
#else
  return 1.0f / x;
#endif
}

/// The part of a standard normal distribution below z.
NORN_HD inline double normal_below(double z) {
  return 0.5 * std::erfc(z * -0.70710678118654752);
}
NORN_HD inline float normal_below(float z) {
  // Below -a, a >= 0, lies P(u) e^(-a^2 / 2) with u = a / (1 + 0.4 a) and the polynomial that
  // interpolates it at Chebyshev's points for a <= 13.5: error below 5e-8, and roundings besides
  // (tests/kernels/math_test.cpp). Pairs of terms are combined (Estrin's scheme).
  const float a = abs(z);
  const float within = a > 1e18f ? 1e18f : a;  // whose square is no infinity
  const float u = within / multiply_add(0.4f, within, 1.0f);
  const float u2 = u * u;
  const float u4 = u2 * u2;
  const float p01 = multiply_add(-0.3989402651786804f, u, 0.5f);
  const float p23 = multiply_add(0.0033160687889903784f, u, 0.09039729833602905f);
  const float p45 = multiply_add(-2.7333993784850463e-05f, u, -0.0029267342761158943f);
  const float p67 = multiply_add(0.00019215558131691068f, u, -0.0003269876469857991f);
  const float p03 = multiply_add(p23, u2, p01);
  const float p47 = multiply_add(p67, u2, p45);
  const float p = multiply_add(multiply_add(-2.6159204935538583e-05f, u4, p47), u4, p03);
  const float below = (p < 0.0f ? 0.0f : p) * exp_nonpositive(-0.5f * within * within);
  return z < 0.0f ? below : 1.0f - below;
}

/// log(1 + e^z) without overflow.
template <typename T>
NORN_HD inline T softplus(T z) {
  return max(z, T(0)) + log1p_unit(exp_nonpositive(-abs(z)));
}

}  // namespace norn::math
