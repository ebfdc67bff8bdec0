// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

#include <algorithm>
#include <cstring>

/// Weighted sums of scattered rows of a matrix: the inner loop of sparse products.
namespace norn {

/// Columns that a sum keeps in registers at a time.
#ifdef __AVX512F__
inline constexpr Index kRowRun = 128;
#else
inline constexpr Index kRowRun = 64;
#endif

/// Rows to add, in order: factor[i] * source row index[i]; no factors means all are 1.
template <typename Int>
struct RowList {
  const Int* index = nullptr;
  const float* factor = nullptr;
  Index count = 0;
  Index readable = 0;  ///< indices from `index` on that may be read: how far to prefetch
};

namespace row_sum {

/// Rows behind the one being added that are prefetched.
inline constexpr Index kPrefetchRows = 8;

using Lanes [[gnu::vector_size(64)]] = float;
inline constexpr Index kLanes = 16;

/// Vectors one by one: arrays of them that are copied as a whole go through memory.
inline Lanes load(const float* from) {
  Lanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline void store(Lanes x, float* to) {
  std::memcpy(to, &x, sizeof x);
}

template <int kVectors, typename Int>
void add_vectors(const RowList<Int>& rows, MatrixView<const float> source, Index first,
                 float* total) {
  Lanes sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = load(total + v * kLanes);
  const float* base = source.data + first;
  const Index fetchable = rows.readable - kPrefetchRows;
  for (Index i = 0; i < rows.count; ++i) {
    if (i < fetchable) {
      const float* next = base + Index(rows.index[i + kPrefetchRows]) * source.stride;
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(next + v * kLanes);
    }
    const float* row = base + Index(rows.index[i]) * source.stride;
    if (rows.factor) {
      const float factor = rows.factor[i];
      for (int v = 0; v < kVectors; ++v) sum[v] += factor * load(row + v * kLanes);
    } else {
      for (int v = 0; v < kVectors; ++v) sum[v] += load(row + v * kLanes);
    }
  }
  for (int v = 0; v < kVectors; ++v) store(sum[v], total + v * kLanes);
}

}  // namespace row_sum

/// total[j] += sum over the list of factor * source(index, first + j) for j in [0, count), in the
/// list's order in float32: what a column gets depends on that column alone.
template <typename Int>
void add_rows(const RowList<Int>& rows, MatrixView<const float> source, Index first, Index count,
              float* total) {
  using row_sum::kLanes;
  constexpr int kFull = int(kRowRun / kLanes);
  Index j = 0;
  for (; j + kRowRun <= count; j += kRowRun)
    row_sum::add_vectors<kFull>(rows, source, first + j, total + j);
  for (; j + 4 * kLanes <= count; j += 4 * kLanes)
    row_sum::add_vectors<4>(rows, source, first + j, total + j);
  for (; j + kLanes <= count; j += kLanes)
    row_sum::add_vectors<1>(rows, source, first + j, total + j);
  if (j == count) return;
  float sum[kLanes];
  const Index rest = count - j;
  std::copy_n(total + j, rest, sum);
  for (Index i = 0; i < rows.count; ++i) {
    const float* row = source.row(Index(rows.index[i])) + first + j;
    const float factor = rows.factor ? rows.factor[i] : 1.0f;
    for (Index k = 0; k < rest; ++k) sum[k] += factor * row[k];
  }
  std::copy_n(sum, rest, total + j);
}

}  // namespace norn
