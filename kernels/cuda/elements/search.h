// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

/// Searches in the ascending columns of a sparse row, on the GPU.
namespace norn::cuda {

inline constexpr unsigned kWholeWarp = 0xFFFFFFFFu;

/// The first position in [begin, end) whose column is at least `unit`, or end; for one thread.
__device__ inline RowOffset lower_bound(const Column* column, RowOffset begin, RowOffset end,
                                        Index unit) {
  while (begin < end) {
    const RowOffset middle = begin + (end - begin) / 2;
    if (Index(column[middle]) < unit)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// The same by a whole warp, which looks at 32 columns at a time: two steps for rows of up to 1024.
__device__ inline RowOffset warp_lower_bound(const Column* column, RowOffset begin, RowOffset end,
                                             Index unit) {
  const int lane = int(threadIdx.x) % 32;
  while (end - begin > 32) {
    const RowOffset part = (end - begin + 31) / 32;
    const RowOffset last = begin + lane * part + part - 1;  // of this lane's part
    const bool is_below = last < end && Index(column[last]) < unit;
    begin += __popc(__ballot_sync(kWholeWarp, is_below)) * part;
    end = begin + part < end ? begin + part : end;
  }
  const bool is_below = begin + lane < end && Index(column[begin + lane]) < unit;
  return begin + __popc(__ballot_sync(kWholeWarp, is_below));
}

/// Whether row r of x stores `unit`.
__device__ inline bool stores(const CsrView& x, Index r, Index unit) {
  const RowOffset end = x.row_begin[r + 1];
  const RowOffset at = lower_bound(x.column, x.row_begin[r], end, unit);
  return at < end && Index(x.column[at]) == unit;
}

}  // namespace norn::cuda
