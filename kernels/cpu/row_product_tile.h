// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/row_product.h"

/// The loops of a set of instructions, for the file that is compiled for it. V gives its vectors:
/// kWidth floats of Type, load, store, broadcast, fma, and transpose of kWidth of them.
namespace norn {
namespace {

constexpr Index kTileRows = 6;

/// Vectors that hold so many units.
template <typename V>
constexpr Index vectors_of(Index units) {
  return (units + V::kWidth - 1) / V::kWidth;
}

template <typename V, int kRows, int kVectors>
void add_tile(const RowPanel& p, const float* x, float* z) {
  typename V::Type sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum[r][v] = V::load(z + r * p.z_stride + v * V::kWidth);
  const float* panel = p.panel;
  for (Index k = 0; k < p.depth; ++k, panel += kVectors * V::kWidth) {
    typename V::Type w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) w[v] = V::load(panel + v * V::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Type value = V::broadcast(x[r * p.x_stride + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sum[r][v] = V::fma(value, w[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) V::store(z + r * p.z_stride + v * V::kWidth, sum[r][v]);
}

template <typename V, int kVectors>
void add_rows_of_tile(const RowPanel& p, Index rows, const float* x, float* z) {
  switch (rows) {
    case 1:
      return add_tile<V, 1, kVectors>(p, x, z);
    case 2:
      return add_tile<V, 2, kVectors>(p, x, z);
    case 3:
      return add_tile<V, 3, kVectors>(p, x, z);
    case 4:
      return add_tile<V, 4, kVectors>(p, x, z);
    case 5:
      return add_tile<V, 5, kVectors>(p, x, z);
    default:
      return add_tile<V, int(kTileRows), kVectors>(p, x, z);
  }
}

void copy_rows(const float* from, Index from_stride, Index rows, Index units, float* to,
               Index to_stride) {
  for (Index r = 0; r < rows; ++r)
    for (Index u = 0; u < units; ++u) to[r * to_stride + u] = from[r * from_stride + u];
}

/// Whole vectors in place; a last one that is not whole by way of a copy.
template <typename V, int kVectors>
void add_panel(const RowPanel& panel) {
  constexpr Index kUnits = kVectors * V::kWidth;
  for (Index r = 0; r < panel.rows; r += kTileRows) {
    const Index rows = panel.rows - r < kTileRows ? panel.rows - r : kTileRows;
    const float* x = panel.x + r * panel.x_stride;
    float* z = panel.z + r * panel.z_stride;
    if (panel.units == kUnits) {
      add_rows_of_tile<V, kVectors>(panel, rows, x, z);
      continue;
    }
    alignas(64) float whole[kTileRows * kUnits] = {};
    copy_rows(z, panel.z_stride, rows, panel.units, whole, kUnits);
    RowPanel of_copy = panel;
    of_copy.z_stride = kUnits;
    add_rows_of_tile<V, kVectors>(of_copy, rows, x, whole);
    copy_rows(whole, kUnits, rows, panel.units, z, panel.z_stride);
  }
}

template <typename V>
void add(const RowPanel& panel) {
  switch (vectors_of<V>(panel.units)) {
    case 1:
      return add_panel<V, 1>(panel);
    case 2:
      return add_panel<V, 2>(panel);
    case 3:
      return add_panel<V, 3>(panel);
    default:
      return add_panel<V, 4>(panel);
  }
}

/// Transposed in registers and used up there.
template <typename V, int kRows>
void add_few_rows(const FewRows& p) {
  for (Index u = 0; u < p.units; u += V::kWidth) {
    // Weights come from memory here; the processor does not see so many rows coming by itself.
    const Index prefetch_offset = u + V::kWidth < p.units ? V::kWidth * p.w_stride : 0;
    typename V::Type sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r] = V::load(p.z + r * p.z_stride + u);
    for (Index k = 0; k < p.depth; k += V::kWidth) {
      typename V::Type square[V::kWidth];
#pragma GCC unroll 16
      for (int i = 0; i < V::kWidth; ++i) {
        const float* row = p.w + (u + i) * p.w_stride + k;
        square[i] = V::load(row);
        __builtin_prefetch(row + prefetch_offset);
      }
      V::transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < V::kWidth; ++i)
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          sum[r] = V::fma(V::broadcast(p.x[r * p.x_stride + k + i]), square[i], sum[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) V::store(p.z + r * p.z_stride + u, sum[r]);
  }
}

template <typename V>
void add_few(const FewRows& rows) {
  switch (rows.rows) {
    case 1:
      return add_few_rows<V, 1>(rows);
    case 2:
      return add_few_rows<V, 2>(rows);
    case 3:
      return add_few_rows<V, 3>(rows);
    default:
      return add_few_rows<V, 4>(rows);
  }
}

template <typename V>
void pack_units(const float* w, Index stride, Index units, Index depth, float* panel) {
  const Index width = vectors_of<V>(units) * V::kWidth;
  const Index whole_units = units / V::kWidth * V::kWidth;
  const Index whole_depth = depth / V::kWidth * V::kWidth;
  for (Index u = 0; u < whole_units; u += V::kWidth)
    for (Index k = 0; k < whole_depth; k += V::kWidth) {
      typename V::Type square[V::kWidth];
#pragma GCC unroll 16
      for (int i = 0; i < V::kWidth; ++i) square[i] = V::load(w + (u + i) * stride + k);
      V::transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < V::kWidth; ++i) V::store(panel + (k + i) * width + u, square[i]);
    }
  for (Index u = 0; u < width; ++u)
    for (Index k = u < whole_units ? whole_depth : 0; k < depth; ++k)
      panel[k * width + u] = u < units ? w[u * stride + k] : 0.0f;
}

template <typename V>
void pack_sources(const float* w, Index stride, Index units, Index depth, float* panel) {
  const Index width = vectors_of<V>(units) * V::kWidth;
  for (Index k = 0; k < depth; ++k)
    for (Index u = 0; u < width; ++u) panel[k * width + u] = u < units ? w[k * stride + u] : 0.0f;
}

}  // namespace
}  // namespace norn
