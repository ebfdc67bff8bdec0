// SPDX-License-Identifier: Apache-2.0
// Chains of fused multiply-adds by AVX-512. Compiled for it, whatever the rest is compiled for.
#include "kernels/cpu/row_product_few.h"
#include "kernels/cpu/row_product_tile.h"

#if defined(__AVX512F__) && defined(__FMA__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12: of its own header
#endif
#include "kernels/cpu/row_product_eight.h"

namespace norn {
namespace {

struct Avx512 {
  using Type = __m512;
  static constexpr int kWidth = 16;
  static Type load(const float* x) { return _mm512_loadu_ps(x); }
  static Type load_some(const float* x, Index first) {
    return _mm512_maskz_loadu_ps(__mmask16((1u << first) - 1), x);
  }
  static void store(float* x, Type value) { _mm512_storeu_ps(x, value); }
  static Type zero() { return _mm512_setzero_ps(); }
  static Type broadcast(float value) { return _mm512_set1_ps(value); }
  static Type add(Type a, Type b) { return _mm512_add_ps(a, b); }
  static Type fma(Type a, Type b, Type c) { return _mm512_fmadd_ps(a, b, c); }

  static void transpose(Type (&m)[16]) {
    Type pairs[16], fours[16];
    for (int i = 0; i < 16; i += 2) {  // of rows i and i + 1, within each 128 bits
      pairs[i] = _mm512_unpacklo_ps(m[i], m[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps(m[i], m[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)  // fours[i + j]: column j of each 128 bits, of rows i to i + 3
      for (int j = 0; j < 2; ++j) {
        fours[i + 2 * j] = _mm512_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
        fours[i + 2 * j + 1] = _mm512_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xEE);
      }
    for (int j = 0; j < 4; ++j) {  // columns j, j + 4, j + 8, j + 12, from the four runs of rows
      const Type low = _mm512_shuffle_f32x4(fours[j], fours[j + 4], 0x44);
      const Type high = _mm512_shuffle_f32x4(fours[j], fours[j + 4], 0xEE);
      const Type low2 = _mm512_shuffle_f32x4(fours[j + 8], fours[j + 12], 0x44);
      const Type high2 = _mm512_shuffle_f32x4(fours[j + 8], fours[j + 12], 0xEE);
      m[j] = _mm512_shuffle_f32x4(low, low2, 0x88);
      m[j + 4] = _mm512_shuffle_f32x4(low, low2, 0xDD);
      m[j + 8] = _mm512_shuffle_f32x4(high, high2, 0x88);
      m[j + 12] = _mm512_shuffle_f32x4(high, high2, 0xDD);
    }
  }
};

constexpr RowProductInstructions kInstructions = {
    "AVX-512", 64, 512, 16, pack_units<Avx512>, pack_sources<Avx512>, add<Avx512>, add_few<Eight>};

}  // namespace

const RowProductInstructions* row_product_avx512() {
  return &kInstructions;
}

}  // namespace norn
#else
const norn::RowProductInstructions* norn::row_product_avx512() {
  return nullptr;
}
#endif
