// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"

#include <cmath>
#include <cstdint>
#include <cstring>

/// Elementary functions for kernels. On the host the float versions are branch-free polynomials
/// that compilers vectorise (accurate to a few units in the last place); double goes to the
/// standard library, CUDA to its own.
namespace norn::math {

NORN_HD inline double exp(double x) {
  return std::exp(x);
}
NORN_HD inline double log1p(double x) {
  return std::log1p(x);
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
NORN_HD inline float log(float x) {
  return std::log(x);
}
NORN_HD inline double sqrt(double x) {
  return std::sqrt(x);
}
NORN_HD inline float sqrt(float x) {
  return std::sqrt(x);
}

template <typename T>
NORN_HD inline T max(T a, T b) {
  return a > b ? a : b;
}
template <typename T>
NORN_HD inline T min(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
NORN_HD inline T abs(T a) {
  return a < T(0) ? -a : a;
}

#ifdef __CUDA_ARCH__
__device__ inline float exp(float x) {
  return expf(x);
}
__device__ inline float log1p(float x) {
  return log1pf(x);
}
__device__ inline float expm1(float x) {
  return expm1f(x);
}
__device__ inline float tanh(float x) {
  return tanhf(x);
}
#else

inline float multiply_add(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// e^x. Range reduction by ln 2 in two parts and a polynomial of degree 6 (coefficients of Cephes'
/// expf, S. Moshier). Arguments beyond +-87 give the value at +-87.
inline float exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 87.0f ? 87.0f : x;
  const float shifted =
      multiply_add(x, 1.44269504088896341f, 12582912.0f);  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0f;
  float r = multiply_add(n, -0.693359375f, x);
  r = multiply_add(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = multiply_add(p, r, 1.3981999507e-3f);
  p = multiply_add(p, r, 8.3334519073e-3f);
  p = multiply_add(p, r, 4.1665795894e-2f);
  p = multiply_add(p, r, 1.6666665459e-1f);
  p = multiply_add(p, r, 5.0000001201e-1f);
  p = multiply_add(p, r * r, r + 1.0f);
  std::int32_t bits;
  std::memcpy(&bits, &shifted, 4);
  bits = (bits - 0x4B400000 + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, 4);
  return p * scale;
}

inline float log1p(float x) {
  return std::log1p(x);
}
inline float expm1(float x) {
  return std::expm1(x);
}

/// tanh x: (1 - e) / (1 + e) with e = exp(-2|x|), and near zero an odd polynomial (coefficients of
/// Cephes' tanhf).
inline float tanh(float x) {
  const float a = abs(x);
  const float e = exp(-2.0f * a);
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
#ifdef __CUDA_ARCH__
__device__ inline float log1p_unit(float e) {
  return log1pf(e);
}
#else
inline float log1p_unit(float e) {
  // Chebyshev interpolation of log1p(e) / e on [0, 1], degree 9: relative error below 1.6e-7
  // (tests/kernels/math_test.cpp).
  float p = -0.0031760570127516985f;
  p = multiply_add(p, e, 0.019542526453733444f);
  p = multiply_add(p, e, -0.056373611092567444f);
  p = multiply_add(p, e, 0.10543623566627502f);
  p = multiply_add(p, e, -0.1526966691017151f);
  p = multiply_add(p, e, 0.1966327428817749f);
  p = multiply_add(p, e, -0.24951615929603577f);
  p = multiply_add(p, e, 0.33329710364341736f);
  p = multiply_add(p, e, -0.49999892711639404f);
  p = multiply_add(p, e, 1.0f);
  return p * e;
}
#endif

/// log(1 + e^z) without overflow.
template <typename T>
NORN_HD inline T softplus(T z) {
  return max(z, T(0)) + log1p_unit(exp(-abs(z)));
}

}  // namespace norn::math
