// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

namespace norn {

/// The stride of bf16 copies with `cols` columns. Rows begin at cache lines (128 bytes), so that
/// the 64 columns that tensor cores read at a time lie in one line.
constexpr Index bf16_stride(Index cols) {
  return (cols + 63) / 64 * 64;
}

}  // namespace norn
