// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/row_product.h"

#include <immintrin.h>

/// Eight floats of AVX2, for files that are compiled for it or for more.
namespace norn {
namespace {

struct Eight {
  using Type = __m256;
  static constexpr int kWidth = 8;
  static Type load(const float* x) { return _mm256_loadu_ps(x); }
  static void store(float* x, Type value) { _mm256_storeu_ps(x, value); }
  template <int kRows>
  static Type load_rows(const float* x, Index stride) {
    const auto two = [&](const float* row) {
      const __m128 low = _mm_loadl_pi(_mm_setzero_ps(), reinterpret_cast<const __m64*>(row));
      return _mm_loadh_pi(low, reinterpret_cast<const __m64*>(row + stride));
    };
    if constexpr (kRows == 1) return load(x);
    if constexpr (kRows == 2) return pair(_mm_loadu_ps(x), _mm_loadu_ps(x + stride));
    if constexpr (kRows == 4) return pair(two(x), two(x + 2 * stride));
  }
  template <int kRows>
  static void store_rows(float* x, Index stride, Type value) {
    const __m128 low = _mm256_castps256_ps128(value), high = _mm256_extractf128_ps(value, 1);
    const auto two = [&](float* row, __m128 values) {
      _mm_storel_pi(reinterpret_cast<__m64*>(row), values);
      _mm_storeh_pi(reinterpret_cast<__m64*>(row + stride), values);
    };
    if constexpr (kRows == 1) store(x, value);
    if constexpr (kRows == 2) {
      _mm_storeu_ps(x, low);
      _mm_storeu_ps(x + stride, high);
    }
    if constexpr (kRows == 4) {
      two(x, low);
      two(x + 2 * stride, high);
    }
  }
  static Type pair(__m128 low, __m128 high) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
  }
  static Type zero() { return _mm256_setzero_ps(); }
  static Type broadcast(float value) { return _mm256_set1_ps(value); }
  static Type add(Type a, Type b) { return _mm256_add_ps(a, b); }
  static Type fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }
  static __m256i mask(Index first) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(first)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static Type load_some(const float* x, Index first) { return _mm256_maskload_ps(x, mask(first)); }
  static Type first(Index count, Type a, Type b) {
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(mask(count)));
  }

  static void transpose(Type (&m)[8]) {
    Type pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {  // of rows i and i + 1, within each 128 bits
      pairs[i] = _mm256_unpacklo_ps(m[i], m[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(m[i], m[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)  // fours[i + j]: column j of each 128 bits, of rows i to i + 3
      for (int j = 0; j < 2; ++j) {
        fours[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
        fours[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xEE);
      }
    for (int j = 0; j < 4; ++j) {  // columns j and j + 4
      m[j] = _mm256_permute2f128_ps(fours[j], fours[j + 4], 0x20);
      m[j + 4] = _mm256_permute2f128_ps(fours[j], fours[j + 4], 0x31);
    }
  }
};

}  // namespace
}  // namespace norn
