// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/update/rule_times.h"
#include "kernels/sparse.h"

#include <cstddef>

/// The parts of the CUDA sparse kernels, one file each.
namespace norn::cuda {

/// What the family keeps between its calls.
struct SparseWorkspace {
  explicit SparseWorkspace(const Stream& stream)
      : sort(stream.memory),
        partial(stream.memory),
        taken(stream.memory),
        segments(stream.memory),
        times(stream) {}
  Workspace<std::byte> sort;          ///< of CUB
  Workspace<float> partial;           ///< sums of segments of popular units
  Workspace<std::uint32_t> taken;     ///< units of each slice of columns that warps have
  Workspace<std::uint32_t> segments;  ///< listed, for batches that come without
  RuleTimes times;                    ///< of the rule
};

/// A transposed batch in the device's memory. Unit t occurs when its range is not empty; those that
/// occur come first.
struct UnitLists {
  const Column* unit;
  const RowOffset* begin;
  const std::int32_t* example;
  const float* value;
  Index touched;  ///< the host's limit
};
inline UnitLists lists_of(const TransposedBatch& xt) {
  return {xt.unit.data(), xt.begin.data(), xt.example.data(),
          xt.has_values ? xt.value.data() : nullptr, xt.touched};
}

void transpose_batch(const Stream& stream, SparseWorkspace& workspace, CsrView x,
                     TransposedBatch& transposed);
void write_gradient(const Stream& stream, SparseWorkspace& workspace, const TransposedBatch& xt,
                    const DenseOperand& delta, float scale, MatrixView<float> g);
void update_touched_rows(const Stream& stream, SparseWorkspace& workspace, const UpdateRule& rule,
                         const UpdateSchedule& schedule, std::int64_t step,
                         const TransposedBatch& xt, const DenseOperand& delta, float scale,
                         const RowState& rows);
/// xt: the batch whose rows are to be put right; null means all rows.
void catch_up_rows(const Stream& stream, SparseWorkspace& workspace, const UpdateRule& rule,
                   const UpdateSchedule& schedule, std::int64_t step, const TransposedBatch* xt,
                   const RowState& rows);
void mark_rows_done(const Stream& stream, const TransposedBatch& xt, std::int64_t step,
                    VectorView<std::int64_t> steps_done);

/// Lists the segments of popular units that are summed for themselves: their number, nothing, and
/// of each its first entry and the one after its last. The list has room for
/// segment_words(entries).
void list_segments(const Stream& stream, const UnitLists& lists, std::uint32_t* list);
Index segment_words(Index entries);

/// Sums of the segments of popular units, see sparse_units.cuh. Null when no unit can have several.
struct SegmentSums {
  const float* sum = nullptr;
  Index stride = 0;
};
SegmentSums sum_segments(const Stream& stream, SparseWorkspace& workspace,
                         const TransposedBatch& xt, const DenseOperand& delta);

}  // namespace norn::cuda
