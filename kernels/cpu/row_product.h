// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

/// Products whose elements are one chain of fused multiply-adds each: what a set of instructions
/// has to know of them. The files of each set are compiled for it, so this header and what they
/// include must bring no functions of others along.
namespace norn {

/// Rows of a result and a run of its units, to which a run of the depth is added.
///   z(r, u) = fma(x(r, k), panel(k, u), z(r, u)) for k = 0, 1, 2 ..
struct RowPanel {
  const float* x;  ///< [rows x depth]
  Index x_stride;
  const float* panel;  ///< [depth x units, rounded up to a vector], as packed
  Index depth;
  float* z;  ///< [rows x units]
  Index z_stride;
  Index rows;
  Index units;
};

/// A few rows of a result, for which packing does not pay: whole vectors of units by whole vectors
/// of the depth.
///   z(r, u) = fma(x(r, k), w(u, k), z(r, u)) for k = 0, 1, 2 ..
struct FewRows {
  static constexpr Index kMost = 4;
  const float* x;  ///< [rows x depth]
  Index x_stride;
  const float* w;  ///< [units x depth]
  Index w_stride;
  Index depth;
  float* z;  ///< [rows x units]
  Index z_stride;
  Index rows;
  Index units;
};

/// What the processor can do, by one set of instructions. All give the same bits.
struct RowProductInstructions {
  const char* name;
  Index panel_units;  ///< most units of a panel
  Index vector;       ///< units of a vector
  /// panel(k, u) = w(u, k), and zero in the columns behind `units`.
  void (*pack_units)(const float* w, Index stride, Index units, Index depth, float* panel);
  /// panel(k, u) = w(k, u), and zero in the columns behind `units`.
  void (*pack_sources)(const float* w, Index stride, Index units, Index depth, float* panel);
  void (*add)(const RowPanel& panel);
  void (*add_few)(const FewRows& rows);
};

/// Null where this build has none of them.
const RowProductInstructions* row_product_avx512();
const RowProductInstructions* row_product_avx2();
const RowProductInstructions* row_product_plain();

}  // namespace norn
