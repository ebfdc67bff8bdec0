// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"
#include "src/tensor/executor.h"

#include <algorithm>
#include <vector>

/// The CPU's cost kernels: independent units in cost.cpp, SoftMax in softmax_cost.cpp.
namespace norn {

class CpuCostKernels final : public CostKernels {
 public:
  explicit CpuCostKernels(Executor& executor) : executor_(executor) {}

 private:
  void do_delta(const UnitCost& rule, const TargetView& target, Index first_unit,
                MatrixView<float> z_to_delta, double* cost, MatrixView<Bfloat16> bf16) override;
  void do_softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                             VectorView<float> sum) override;
  void do_softmax_maximum(MatrixView<const float> block_maximum,
                          VectorView<float> maximum) override;
  void do_softmax_total(MatrixView<const float> block_maximum, MatrixView<const float> block_sum,
                        VectorView<const float> maximum, VectorView<std::int64_t> total,
                        std::int64_t* out_of_range) override;
  void do_target_coupling(const SoftMaxCost& rule, const TargetView& target,
                          VectorView<std::int64_t> coupling, std::int64_t* out_of_range) override;
  void do_block_coupling(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                         MatrixView<const float> z, const SoftMaxRows& rows,
                         VectorView<std::int64_t> coupling, std::int64_t* out_of_range) override;
  void do_softmax_delta(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                        const SoftMaxRows& rows, MatrixView<float> z_to_delta, double* cost,
                        MatrixView<Bfloat16> bf16) override;
  void do_softmax_values(const SoftMaxRows& rows, MatrixView<float> z_to_y) override;

  Executor& executor_;
};

enum class AbsentEntries { count_as_zero, ignore };

inline AbsentEntries absent_entries(const TargetView& target) {
  return target.ignore_absent ? AbsentEntries::ignore : AbsentEntries::count_as_zero;
}

/// The targets of one example within one block.
struct RowTargets {
  const Column* column = nullptr;  ///< stored entries: unit numbers of the whole layer, ascending
  const float* value = nullptr;    ///< their values, or null: all 1
  const float* entry_weight = nullptr;  ///< their weights, or null: all 1
  Index stored = 0;                     ///< how many of them
  const float* dense = nullptr;         ///< dense targets of the block's first units
  Index dense_count = 0;                ///< how many of them; the units beyond have target 0
  float weight = 1.0f;                  ///< of the example

  StoredTarget entry(Index i) const {
    return {value == nullptr ? 1.0f : value[i], entry_weight == nullptr ? 1.0f : entry_weight[i]};
  }
};

/// The part of row r that belongs to units [first_unit, first_unit + width).
inline RowTargets row_targets(const TargetView& target, Index r, Index first_unit, Index width) {
  RowTargets row;
  row.weight = target.weight.empty() ? 1.0f : target.weight[r];
  if (!target.is_sparse) {
    row.dense_count = std::clamp<Index>(target.dense.cols - first_unit, 0, width);
    if (row.dense_count > 0) row.dense = target.dense.row(r) + first_unit;
    return row;
  }
  const CsrView& x = target.sparse;
  const Column* end = x.column + x.row_begin[r + 1];
  const Column* from = std::lower_bound(x.column + x.row_begin[r], end, Column(first_unit));
  // A 64-bit bound: the layer may end at the last column number there is.
  const Column* to = std::partition_point(
      from, end, [&](Column column) { return Index(column) < first_unit + width; });
  row.column = from;
  row.value = x.value == nullptr ? nullptr : x.value + (from - x.column);
  if (target.entry_weight != nullptr) row.entry_weight = target.entry_weight + (from - x.column);
  row.stored = to - from;
  return row;
}

/// Copies the pre-activations of the stored entries into `saved`.
inline void save_stored(const RowTargets& row, Index first_unit, const float* z,
                        std::vector<float>& saved) {
  saved.resize(std::size_t(row.stored));
  for (Index i = 0; i < row.stored; ++i)
    saved[std::size_t(i)] = z[Index(row.column[i]) - first_unit];
}

/// Row r of the deltas, cast to bf16, where that is wanted.
inline void cast_row(MatrixView<const float> delta, Index r, MatrixView<Bfloat16> bf16) {
  if (bf16.data == nullptr) return;
  for (Index c = 0; c < delta.cols; ++c) bf16(r, c) = Bfloat16::rounded(delta(r, c));
}

/// The sum of the rows' costs, in row order.
inline double sum_in_order(const std::vector<double>& row_cost) {
  double total = 0;
  for (double cost : row_cost) total += cost;
  return total;
}

}  // namespace norn
