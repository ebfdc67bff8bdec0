// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

/// Products of which an element has bits of its own: what a set of instructions has to know of
/// them. The files of each set are compiled for it, so this header and what they include must bring
/// no functions of others along.
namespace norn {

/// An element adds up runs of its depth, one after the other, each as eight chains of fused
/// multiply-adds, which are eight lanes of a vector where x and w lie along the depth:
///   chain(j) = fma(x(r, k), w(u, k), chain(j)) for k = j, j + 8, .. of the run, from 0 on
///   z(r, u) = ((z(r, u) + chain(0)) + chain(1)) + .. + chain(7)
constexpr Index kChains = 8;
constexpr Index kDepthRun = 256;

/// Rows of a panel between the first ones of two chains. Odd, so that they are no power of two
/// apart.
constexpr Index chain_pitch(Index depth) {
  return (depth + kChains - 1) / kChains | 1;
}
/// The row of a panel that holds step k of a run of the depth: chain after chain.
constexpr Index panel_row(Index k, Index depth) {
  return k % kChains * chain_pitch(depth) + k / kChains;
}

/// Rows of a result and a panel of its units, to which a run of the depth is added.
struct RowPanel {
  const float* x;  ///< [rows x depth]
  Index x_stride;
  const float* panel;  ///< [panel rows x units, rounded up to a vector], as packed
  Index depth;         ///< at most kDepthRun
  float* z;            ///< [rows x units]
  Index z_stride;
  Index rows;
  Index units;
};

/// A few rows of a result, for which packing does not pay, with the whole depth.
struct FewRows {
  const float* x;  ///< [rows x depth]
  Index x_stride;
  const float* w;  ///< [units x depth]
  Index w_stride;
  Index depth;
  float* z;  ///< [rows x units]
  Index z_stride;
  Index rows;
  Index units;
  Index ahead;  ///< how many floats ahead weights are fetched from memory; 0: they need not be
};

/// What the processor can do, by one set of instructions. All give the same bits.
struct RowProductInstructions {
  const char* name;
  Index panel_units;  ///< most units of a panel
  Index panel_rows;   ///< of a result to which several panels are added before the next rows
  Index few_rows;     ///< most rows that go without packing
  /// panel(panel_row(k), u) = w(u, k), and zero in the columns behind `units`.
  void (*pack_units)(const float* w, Index stride, Index units, Index depth, float* panel);
  /// panel(panel_row(k), u) = w(k, u), and zero in the columns behind `units`.
  void (*pack_sources)(const float* w, Index stride, Index units, Index depth, float* panel);
  void (*add)(const RowPanel& panel);
  void (*add_few)(const FewRows& rows);
};

/// Null where this build has none of them.
const RowProductInstructions* row_product_avx512();
const RowProductInstructions* row_product_avx2();
const RowProductInstructions* row_product_plain();

}  // namespace norn
