// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dense.h"
#include "norn/tensor/views.h"

#include <algorithm>
#include <cstring>

/// Weighted sums of scattered rows of a matrix: the inner loop of sparse products.
namespace norn {

/// Rows to add, in order: factor[i] * source row index[i]; no factors means all are 1.
template <typename Int>
struct RowList {
  const Int* index = nullptr;
  const float* factor = nullptr;
  Index count = 0;
};

namespace row_sum {

/// What one register holds: a wider vector would go through memory.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
using Lanes [[gnu::vector_size(kVectorBytes)]] = float;
inline constexpr Index kLanes = kVectorBytes / Index(sizeof(float));

/// Rows that are added while they are in the first-level cache, and how far behind them rows are
/// prefetched.
inline constexpr Index kTileRows = 8;
inline constexpr Index kPrefetchRows = 16;
inline constexpr Index kLineFloats = 16;  // of a line of a cache

/// Into the second-level cache: the first one has few lines on their way at a time. Inlined by
/// force: gcc 12 drops calls of a function that does nothing but prefetch.
[[gnu::always_inline]] inline void prefetch(const float* row, Index count) {
  for (Index j = 0; j < count; j += kLineFloats) __builtin_prefetch(row + j, 0, 2);
}

/// The same of a row that is to be written, so that no other core has its lines meanwhile.
[[gnu::always_inline]] inline void prefetch_to_write(const float* row, Index count) {
  for (Index j = 0; j < count; j += kLineFloats) __builtin_prefetch(row + j, 1, 2);
}

/// Vectors one by one: arrays of them that are copied as a whole go through memory.
inline Lanes load(const float* from) {
  Lanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
inline void store(Lanes x, float* to) {
  std::memcpy(to, &x, sizeof x);
}

template <int kVectors, Existing existing, typename Int>
void add_vectors(const RowList<Int>& rows, MatrixView<const float> source, Index first,
                 float* total) {
  Lanes sum[kVectors] = {};
  if constexpr (existing == Existing::add)
    for (int v = 0; v < kVectors; ++v) sum[v] = load(total + v * kLanes);
  const float* base = source.data + first;
  for (Index i = 0; i < rows.count; ++i) {
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

/// Columns that a sum keeps in registers at a time.
inline constexpr Index kRowRun = 8 * row_sum::kLanes;

/// total[j] += or = sum over the list of factor * source(index, first + j) for j in [0, count), in
/// the list's order in float32: what a column gets depends on that column alone.
template <Existing existing = Existing::add, typename Int>
void add_rows(const RowList<Int>& rows, MatrixView<const float> source, Index first, Index count,
              float* total) {
  using row_sum::add_vectors;
  using row_sum::kLanes;
  constexpr int kFull = int(kRowRun / kLanes);
  Index j = 0;
  for (; j + kRowRun <= count; j += kRowRun)
    add_vectors<kFull, existing>(rows, source, first + j, total + j);
  for (; j + 4 * kLanes <= count; j += 4 * kLanes)
    add_vectors<4, existing>(rows, source, first + j, total + j);
  for (; j + kLanes <= count; j += kLanes)
    add_vectors<1, existing>(rows, source, first + j, total + j);
  if (j == count) return;
  float sum[kLanes] = {};
  const Index rest = count - j;
  if (existing == Existing::add) std::copy_n(total + j, rest, sum);
  for (Index i = 0; i < rows.count; ++i) {
    const float* row = source.row(Index(rows.index[i])) + first + j;
    const float factor = rows.factor ? rows.factor[i] : 1.0f;
    for (Index k = 0; k < rest; ++k) sum[k] += factor * row[k];
  }
  std::copy_n(sum, rest, total + j);
}

}  // namespace norn
