// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/sparse/row_lanes.cuh"

#include <cuda_pipeline.h>

/// Sums of many scattered rows whose way leads through shared memory: as many rows are on it as
/// there is room for, whatever registers the compiler would spend on them.
namespace norn::cuda {

/// Rows of a warp that are on their way.
inline constexpr int kPrefetchedRows = 12;

/// Workspace for the rows of a block's warps: with 12 rows of 512 bytes, four blocks of a
/// multiprocessor.
template <int kWidth>
struct RowStage {
  Lane<kWidth> lane[kRowWarps][kPrefetchedRows][kWarp];
};

/// sum += the listed rows, in the list's order. `source` stands at the lane's column. A lane reads
/// what it has fetched itself, so that nothing but its own copies has to be waited for.
template <int kWidth, typename Int>
__device__ void add_streamed_rows(const ListedRows<Int>& list, const float* source, Index stride,
                                  RowStage<kWidth>& stage, Lane<kWidth>& sum) {
  const int lane = int(threadIdx.x % kWarp);
  auto& rows = stage.lane[threadIdx.x / kWarp];
  FetchedRows<Int> fetched, following;
  fetched.fetch(list, 0);
  following.fetch(list, kWarp);
  int from = 0, to = 0;  // places of the next row to add and the next to fetch
  Index next = 0;        // the next row to fetch
  const auto fetch_next = [&] {
    if (next < list.count) {
      if (next > 0 && next % kWarp == 0) {
        fetched = following;
        following.fetch(list, next + kWarp);
      }
      const Int number = __shfl_sync(kAllLanes, fetched.row, int(next % kWarp));
      __pipeline_memcpy_async(&rows[to][lane], source + Index(number) * stride,
                              sizeof(Lane<kWidth>));
      to = to + 1 == kPrefetchedRows ? 0 : to + 1;
      ++next;
    }
    __pipeline_commit();
  };
  for (int i = 0; i < kPrefetchedRows; ++i) fetch_next();
  for (Index i = 0; i < list.count; ++i) {
    __pipeline_wait_prior(kPrefetchedRows - 1);
    const Lane<kWidth> row = rows[from][lane];
    const float factor = list.factor ? list.factor[i] : 1.0f;
    for (int j = 0; j < kWidth; ++j) sum.v[j] += factor * row.v[j];
    from = from + 1 == kPrefetchedRows ? 0 : from + 1;
    fetch_next();
  }
}

}  // namespace norn::cuda
