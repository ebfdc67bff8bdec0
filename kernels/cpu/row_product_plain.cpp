// SPDX-License-Identifier: Apache-2.0
// Chains of fused multiply-adds for any processor. Where that has none, the library's function
// computes their bits, slowly.
#include "kernels/cpu/row_product_few.h"
#include "kernels/cpu/row_product_tile.h"

namespace norn {
namespace {

template <int kLanes>
struct Plain {
  struct Type {
    float lane[kLanes];
  };
  static constexpr int kWidth = kLanes;
  static Type zero() { return {}; }
  static Type load(const float* x) { return load_some(x, kLanes); }
  static Type load_some(const float* x, Index first) {
    Type value = {};
    for (Index i = 0; i < first; ++i) value.lane[i] = x[i];
    return value;
  }
  static void store(float* x, const Type& value) {
    for (int i = 0; i < kLanes; ++i) x[i] = value.lane[i];
  }
  template <int kRows>
  static Type load_rows(const float* x, Index stride) {
    constexpr int kEach = kLanes / kRows;
    Type value;
    for (int i = 0; i < kLanes; ++i) value.lane[i] = x[i / kEach * stride + i % kEach];
    return value;
  }
  template <int kRows>
  static void store_rows(float* x, Index stride, const Type& value) {
    constexpr int kEach = kLanes / kRows;
    for (int i = 0; i < kLanes; ++i) x[i / kEach * stride + i % kEach] = value.lane[i];
  }
  static Type broadcast(float value) {
    Type all;
    for (float& lane : all.lane) lane = value;
    return all;
  }
  static Type add(const Type& a, const Type& b) {
    Type sum;
    for (int i = 0; i < kLanes; ++i) sum.lane[i] = a.lane[i] + b.lane[i];
    return sum;
  }
  static Type fma(const Type& a, const Type& b, const Type& c) {
    Type sum;
    for (int i = 0; i < kLanes; ++i) sum.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return sum;
  }
  static Type first(Index count, const Type& a, const Type& b) {
    Type chosen = b;
    for (Index i = 0; i < count; ++i) chosen.lane[i] = a.lane[i];
    return chosen;
  }
  static void transpose(Type (&m)[kLanes]) {
    for (int i = 0; i < kLanes; ++i)
      for (int j = 0; j < i; ++j) {
        const float above = m[j].lane[i];
        m[j].lane[i] = m[i].lane[j];
        m[i].lane[j] = above;
      }
  }
};
using Four = Plain<4>;

constexpr RowProductInstructions kInstructions = {
    "plain", 16, 24, 4, pack_units<Four>, pack_sources<Four>, add<Four>, add_few<Plain<kChains>>};

}  // namespace

const RowProductInstructions* row_product_plain() {
  return &kInstructions;
}

}  // namespace norn
