// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

namespace norn::cuda {

__device__ inline Index entries_of(const CsrView& x) {
  return x.rows == 0 ? 0 : x.row_begin[x.rows] - x.row_begin[0];
}

/// The row that holds entry `at`: the last one that begins at or before it.
__device__ inline Index row_holding(const CsrView& x, RowOffset at) {
  Index low = 0, high = x.rows;
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    if (x.row_begin[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace norn::cuda
