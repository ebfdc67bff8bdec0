// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/row_sum.h"
#include "kernels/cpu/step_table.h"
#include "kernels/sparse.h"
#include "src/tensor/executor.h"

#include <functional>

/// The parts of the CPU's sparse kernels, one file each.
namespace norn {

void transpose_batch(Executor& executor, CsrView x, TransposedBatch& transposed);

/// Runs task(first, end) for runs of the touched units with about equal work: the entries of a unit
/// and `unit_cost` more for the unit itself. A popular unit does not drag its neighbours along.
void for_balanced_units(Executor& executor, const TransposedBatch& xt, Index cols, Index unit_cost,
                        const std::function<void(Index first, Index end)>& task);

/// The examples that hold touched unit t.
inline RowList<std::int32_t> examples_of(const TransposedBatch& xt, Index t) {
  const RowOffset begin = xt.begin.data()[t];
  const Index count = xt.begin.data()[t + 1] - begin;
  return {xt.example.data() + begin, xt.has_values ? xt.value.data() + begin : nullptr, count};
}

/// gradient[j] = scale * sum over the unit's examples of value * delta(example, first + j).
inline void unit_gradient(const TransposedBatch& xt, Index t, MatrixView<const float> delta,
                          float scale, Index first, Index count, float* gradient) {
  add_rows<Existing::overwrite>(examples_of(xt, t), delta, first, count, gradient);
  for (Index j = 0; j < count; ++j) gradient[j] *= scale;
}

void update_touched_rows(Executor& executor, StepTables& tables, const UpdateRule& rule,
                         const UpdateSchedule& schedule, std::int64_t step,
                         const TransposedBatch& xt, MatrixView<const float> delta, float scale,
                         const RowState& rows);
/// `listed`: the numbers of the `count` rows to put right; null means rows 0, 1, 2 ...
void catch_up_rows(Executor& executor, StepTables& tables, const UpdateRule& rule,
                   const UpdateSchedule& schedule, std::int64_t step, const Column* listed,
                   Index count, const RowState& rows);

}  // namespace norn
