// SPDX-License-Identifier: Apache-2.0
// Chains of fused multiply-adds by AVX2. Compiled for it, whatever the rest is compiled for.
#include "kernels/cpu/row_product_few.h"
#include "kernels/cpu/row_product_tile.h"

#if defined(__AVX2__) && defined(__FMA__)
#include "kernels/cpu/row_product_eight.h"

namespace norn {
namespace {

// Six rows of two vectors: sixteen registers hold no more.
constexpr RowProductInstructions kInstructions = {
    "AVX2", 16, 24, 16, pack_units<Eight>, pack_sources<Eight>, add<Eight>, add_few<Eight>};

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
