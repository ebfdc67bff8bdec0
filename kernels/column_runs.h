// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"
#include "src/tensor/block_partition.h"

/// An index of sparse rows for kernels that take their columns tile by tile.
namespace norn {

/// Where each row's entries of each run of kWidth columns begin. It lies in the device's memory and
/// is made by BatchKernels::find_runs().
struct ColumnRuns {
  static constexpr Index kWidth = 128;
  const int* begin = nullptr;  ///< [runs + 1 x stride], counted from the row's first entry
  Index stride = 0;
  Range columns;  ///< run i begins at columns.begin + i * kWidth; the last may be narrower

  static Index stride_of(Index rows) { return (rows + 63) / 64 * 64; }
  static Index runs_of(Index columns) { return (columns + kWidth - 1) / kWidth; }
  /// How many numbers `begin` holds.
  static Index size(Index rows, Index columns) { return (runs_of(columns) + 1) * stride_of(rows); }
  /// Whether these columns begin and end where runs do.
  bool cover(Range part) const {
    const Index first = part.begin - columns.begin;
    return begin != nullptr && first >= 0 && first % kWidth == 0 && part.end <= columns.end &&
           (part.end == columns.end || (part.end - columns.begin) % kWidth == 0);
  }
  /// The beginnings from the run of this column on, which must be a run's first.
  const int* from(Index column) const { return begin + (column - columns.begin) / kWidth * stride; }
};

}  // namespace norn
