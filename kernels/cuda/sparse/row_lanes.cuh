// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

#include <cstdint>

/// A warp over a run of neighbouring columns of a row-major matrix, and weighted sums of scattered
/// rows: the inner loop of sparse products.
namespace norn::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;
/// Warps of a block of the sparse kernels.
inline constexpr int kRowWarps = 8;

/// What one lane holds of a row: kWidth neighbouring columns.
template <int kWidth>
struct alignas(4 * kWidth) Lane {
  float v[kWidth];
};

__device__ inline Lane<4> lane_of(float4 four) {
  return {four.x, four.y, four.z, four.w};
}

template <int kWidth>
__device__ Lane<kWidth> load_lane(const float* from) {
  if constexpr (kWidth == 4)
    return lane_of(*reinterpret_cast<const float4*>(from));
  else
    return {*from};
}
/// Columns of a matrix in bfloat16.
template <int kWidth>
__device__ Lane<kWidth> load_lane(const Bfloat16* from) {
  if constexpr (kWidth == 4) {
    const uint2 four = *reinterpret_cast<const uint2*>(from);
    return {__uint_as_float(four.x << 16), __uint_as_float(four.x & 0xFFFF0000u),
            __uint_as_float(four.y << 16), __uint_as_float(four.y & 0xFFFF0000u)};
  } else {
    return {from->value()};
  }
}
/// The same for what is not read again soon: it leaves the cache first.
template <int kWidth>
__device__ Lane<kWidth> load_lane_once(const float* from) {
  if constexpr (kWidth == 4)
    return lane_of(__ldcs(reinterpret_cast<const float4*>(from)));
  else
    return {__ldcs(from)};
}
template <int kWidth>
__device__ void store_lane(float* to, const Lane<kWidth>& lane) {
  if constexpr (kWidth == 4)
    *reinterpret_cast<float4*>(to) = make_float4(lane.v[0], lane.v[1], lane.v[2], lane.v[3]);
  else
    *to = lane.v[0];
}
template <int kWidth>
__device__ void store_lane_once(float* to, const Lane<kWidth>& lane) {
  if constexpr (kWidth == 4)
    __stcs(reinterpret_cast<float4*>(to), make_float4(lane.v[0], lane.v[1], lane.v[2], lane.v[3]));
  else
    __stcs(to, lane.v[0]);
}

/// Runs of columns, one a warp, that cover a row.
template <int kWidth>
inline Index slices_of(Index cols) {
  return (cols + kWarp * kWidth - 1) / (kWarp * kWidth);
}

/// Where a lane stands in a row. A lane beyond the last column reads the slice's first column, so
/// that no load needs a condition, and writes nothing.
struct LaneColumn {
  Index column;
  bool active;
};
template <int kWidth>
__device__ LaneColumn lane_column(Index slice, Index cols) {
  const Index first = slice * (kWarp * kWidth);
  const Index mine = first + Index(threadIdx.x % kWarp) * kWidth;
  return mine < cols ? LaneColumn{mine, true} : LaneColumn{first, false};
}

/// Whether every row of the matrix can be read four columns at a time.
template <typename T>
bool in_fours(MatrixView<T> m) {
  return reinterpret_cast<std::uintptr_t>(m.data) % (4 * sizeof(T)) == 0 && m.stride % 4 == 0 &&
         m.cols % 4 == 0;
}

/// Rows to add, in order: factor[i] * source row index[i]; no factors means all are 1.
template <typename Int>
struct ListedRows {
  const Int* index;
  const float* factor;
  Index count;
};

/// 32 entries of a list, one a lane.
template <typename Int>
struct FetchedRows {
  Int row = 0;
  float weight = 1.0f;

  __device__ void fetch(const ListedRows<Int>& list, Index first) {
    const Index i = first + Index(threadIdx.x % kWarp);
    if (i >= list.count) return;
    row = list.index[i];
    if (list.factor) weight = list.factor[i];
  }
};

/// sum += the listed rows, whose first 32 are in `fetched`, in the list's order. `source` stands at
/// the lane's column. For lists of a few rows: kInFlight of them are read at a time.
template <int kWidth, int kInFlight, typename Int, typename T>
__device__ void add_rows(const ListedRows<Int>& list, FetchedRows<Int> fetched, const T* source,
                         Index stride, Lane<kWidth>& sum) {
  for (Index i = 0; i < list.count; i += kWarp) {
    const FetchedRows<Int> here = fetched;
    fetched.fetch(list, i + kWarp);
    const int count = int(list.count - i < kWarp ? list.count - i : kWarp);
    for (int k = 0; k < count; k += kInFlight) {
      Lane<kWidth> row[kInFlight] = {};
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        const Int number = __shfl_sync(kAllLanes, here.row, k + u);
        if (k + u < count) row[u] = load_lane<kWidth>(source + Index(number) * stride);
      }
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        const float factor = __shfl_sync(kAllLanes, here.weight, k + u);
        if (k + u < count)
          for (int j = 0; j < kWidth; ++j) sum.v[j] += factor * row[u].v[j];
      }
    }
  }
}

/// sum += `count` rows that follow each other.
template <int kWidth, int kInFlight>
__device__ void add_consecutive_rows(const float* source, Index stride, Index count,
                                     Lane<kWidth>& sum) {
  for (Index k = 0; k < count; k += kInFlight) {
    Lane<kWidth> row[kInFlight] = {};
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (k + u < count) row[u] = load_lane<kWidth>(source + (k + u) * stride);
#pragma unroll
    for (int u = 0; u < kInFlight; ++u)
      if (k + u < count)
        for (int j = 0; j < kWidth; ++j) sum.v[j] += row[u].v[j];
  }
}

}  // namespace norn::cuda
