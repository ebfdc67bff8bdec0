// SPDX-License-Identifier: Apache-2.0
// Chains of fused multiply-adds by AVX2. Compiled for it, whatever the rest is compiled for.
#include "kernels/cpu/row_product_tile.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

namespace norn {
namespace {

struct Avx2 {
  using Type = __m256;
  static constexpr int kWidth = 8;
  static Type load(const float* x) { return _mm256_loadu_ps(x); }
  static void store(float* x, Type value) { _mm256_storeu_ps(x, value); }
  static Type broadcast(float value) { return _mm256_set1_ps(value); }
  static Type fma(Type a, Type b, Type c) { return _mm256_fmadd_ps(a, b, c); }

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

// Six rows of two vectors: sixteen registers hold no more.
constexpr RowProductInstructions kInstructions = {
    "AVX2", 16, Avx2::kWidth, pack_units<Avx2>, pack_sources<Avx2>, add<Avx2>, add_few<Avx2>};

}  // namespace

const RowProductInstructions* row_product_avx2() {
  return &kInstructions;
}

}  // namespace norn
#else
const norn::RowProductInstructions* norn::row_product_avx2() {
  return nullptr;
}
#endif
