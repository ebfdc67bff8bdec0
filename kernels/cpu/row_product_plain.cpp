// SPDX-License-Identifier: Apache-2.0
// Chains of fused multiply-adds for any processor. Where that has none, the library's function
// computes their bits, slowly.
#include "kernels/cpu/row_product_tile.h"

namespace norn {
namespace {

struct Plain {
  struct Type {
    float lane[4];
  };
  static constexpr int kWidth = 4;
  static Type load(const float* x) { return {{x[0], x[1], x[2], x[3]}}; }
  static void store(float* x, const Type& value) {
    for (int i = 0; i < kWidth; ++i) x[i] = value.lane[i];
  }
  static Type broadcast(float value) { return {{value, value, value, value}}; }
  static Type fma(const Type& a, const Type& b, const Type& c) {
    Type sum;
    for (int i = 0; i < kWidth; ++i) sum.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return sum;
  }
  static void transpose(Type (&m)[4]) {
    for (int i = 0; i < kWidth; ++i)
      for (int j = 0; j < i; ++j) {
        const float above = m[j].lane[i];
        m[j].lane[i] = m[i].lane[j];
        m[i].lane[j] = above;
      }
  }
};

constexpr RowProductInstructions kInstructions = {
    "plain", 16, Plain::kWidth, pack_units<Plain>, pack_sources<Plain>, add<Plain>, add_few<Plain>};

}  // namespace

const RowProductInstructions* row_product_plain() {
  return &kInstructions;
}

}  // namespace norn
