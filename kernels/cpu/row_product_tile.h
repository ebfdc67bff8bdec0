// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/row_product.h"

/// Products of packed panels, for the file that is compiled for a set of instructions. V gives its
/// vectors: kWidth floats of Type, zero, load, load_some of the first n (others are zero), store,
/// broadcast, add, fma, and transpose of kWidth of them.
namespace norn {
namespace {

constexpr Index kTileRows = 6;

/// Vectors that hold so many units.
template <typename V>
constexpr Index vectors_of(Index units) {
  return (units + V::kWidth - 1) / V::kWidth;
}

/// Adds chain j of a run of the depth, of `steps` steps, to a tile.
template <typename V, int kRows, int kVectors>
inline void add_chain(const RowPanel& p, const float* panel, const float* x, Index steps,
                      float* z) {
  typename V::Type chain[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) chain[r][v] = V::zero();
#pragma GCC unroll 4
  for (Index i = 0; i < steps; ++i, panel += kVectors * V::kWidth, x += kChains) {
    typename V::Type w[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) w[v] = V::load(panel + v * V::kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename V::Type value = V::broadcast(x[r * p.x_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) chain[r][v] = V::fma(value, w[v], chain[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      float* sum = z + r * p.z_stride + v * V::kWidth;
      V::store(sum, V::add(V::load(sum), chain[r][v]));
    }
}

template <typename V, int kRows, int kVectors>
void add_tile(const RowPanel& p, const float* x, float* z) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)  // the next tile's, perhaps
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v += (64 / 4 + V::kWidth - 1) / V::kWidth)
      __builtin_prefetch(z + (kRows + r) * p.z_stride + v * V::kWidth, 1);
  const Index chain_size = chain_pitch(p.depth) * kVectors * V::kWidth;
  for (Index j = 0; j < kChains && j < p.depth; ++j) {
    const float* panel = p.panel + j * chain_size;
    if (p.depth == kDepthRun)  // a number of steps that the compiler knows
      add_chain<V, kRows, kVectors>(p, panel, x + j, kDepthRun / kChains, z);
    else
      add_chain<V, kRows, kVectors>(p, panel, x + j, (p.depth - j + kChains - 1) / kChains, z);
  }
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

/// A square of weights, zero beyond `units` and `depth`, with the units in the lanes.
template <typename V>
inline void load_square(const float* w, Index stride, Index units, Index depth,
                        typename V::Type (&square)[V::kWidth]) {
  if (units >= V::kWidth && depth >= V::kWidth) {
#pragma GCC unroll 16
    for (int i = 0; i < V::kWidth; ++i) square[i] = V::load(w + i * stride);
  } else {
    const Index some = depth < V::kWidth ? depth : V::kWidth;
#pragma GCC unroll 16
    for (int i = 0; i < V::kWidth; ++i)
      square[i] = i < units ? V::load_some(w + i * stride, some) : V::zero();
  }
  V::transpose(square);
}

template <typename V>
void pack_units(const float* w, Index stride, Index units, Index depth, float* panel) {
  const Index width = vectors_of<V>(units) * V::kWidth, pitch = chain_pitch(depth) * width;
  for (Index u = 0; u < units; u += V::kWidth)
    for (Index k = 0; k < depth; k += V::kWidth) {
      typename V::Type square[V::kWidth];
      load_square<V>(w + u * stride + k, stride, units - u, depth - k, square);
      // As panel_row() says, but for steps that are known here.
      float* first = panel + k % kChains * pitch + k / kChains * width + u;
#pragma GCC unroll 16
      for (int i = 0; i < V::kWidth; ++i)
        if (i < depth - k)
          V::store(first + i % int(kChains) * pitch + i / int(kChains) * width, square[i]);
    }
}

template <typename V>
void pack_sources(const float* w, Index stride, Index units, Index depth, float* panel) {
  const Index width = vectors_of<V>(units) * V::kWidth;
  for (Index k = 0; k < depth; ++k) {
    float* row = panel + panel_row(k, depth) * width;
    for (Index u = 0; u < width; ++u) row[u] = u < units ? w[k * stride + u] : 0.0f;
  }
}

}  // namespace
}  // namespace norn
