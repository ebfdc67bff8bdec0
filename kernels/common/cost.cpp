// SPDX-License-Identifier: Apache-2.0
// The cost kernels' door: shapes are checked here, once for all devices.
#include "kernels/cost.h"

#include "kernels/softmax_target.h"
#include "norn/base/error.h"

#include <algorithm>

namespace norn {
namespace {

void require_target(const TargetView& target, Index rows, Index first_unit, Index width) {
  require(first_unit >= 0, "cost: first_unit is negative");
  if (target.is_sparse) {
    require(target.sparse.rows == rows, "cost: sparse targets and pre-activations differ in rows");
    require(first_unit + width <= target.sparse.cols || width == 0,
            "cost: the block goes beyond the columns of the sparse targets");
  } else {
    require(target.dense.rows == rows, "cost: dense targets and pre-activations differ in rows");
  }
  require(target.is_sparse || target.entry_weight == nullptr,
          "cost: weights of entries are for sparse targets");
  require(target.weight.empty() || target.weight.size == rows,
          "cost: example weights must be empty or one a row");
}

void require_bf16(MatrixView<Bfloat16> bf16, MatrixView<float> delta) {
  require(bf16.data == nullptr || (bf16.rows == delta.rows && bf16.cols == delta.cols),
          "cost: the rounded deltas must be none or in the shape of the deltas");
}

void require_rows(const SoftMaxRows& rows, Index count) {
  require(rows.maximum.size == count && rows.total.size == count,
          "softmax: maximum and total must hold one number a row");
}

}  // namespace

void CostKernels::delta(const UnitCost& rule, const TargetView& target, Index first_unit,
                        MatrixView<float> z_to_delta, double* cost, MatrixView<Bfloat16> bf16) {
  require_target(target, z_to_delta.rows, first_unit, z_to_delta.cols);
  require_bf16(bf16, z_to_delta);
  do_delta(rule, target, first_unit, z_to_delta, cost, bf16);
}

void CostKernels::softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                                     VectorView<float> sum) {
  require(maximum.size == z.rows && sum.size == z.rows,
          "softmax_statistics: maximum and sum must hold one number a row");
  do_softmax_statistics(z, maximum, sum);
}

void CostKernels::softmax_maximum(MatrixView<const float> block_maximum,
                                  VectorView<float> maximum) {
  require(block_maximum.cols == maximum.size,
          "softmax_maximum: block_maximum must be [blocks x B] for maximum [B]");
  do_softmax_maximum(block_maximum, maximum);
}

void CostKernels::softmax_total(MatrixView<const float> block_maximum,
                                MatrixView<const float> block_sum, VectorView<const float> maximum,
                                VectorView<std::int64_t> total, std::int64_t* out_of_range) {
  require(block_maximum.rows == block_sum.rows && block_maximum.cols == block_sum.cols,
          "softmax_total: block_maximum and block_sum differ in shape");
  require(block_maximum.cols == maximum.size && total.size == maximum.size,
          "softmax_total: block statistics must be [blocks x B] for maximum and total [B]");
  require(out_of_range != nullptr, "softmax_total: out_of_range must be given");
  do_softmax_total(block_maximum, block_sum, maximum, total, out_of_range);
}

bool CostKernels::coupling_from_targets(const SoftMaxCost& rule) {
  const std::optional<SoftMaxTargetRule> targets = softmax_target_rule(rule.loss);
  return targets && targets->margin == std::numeric_limits<float>::infinity();
}

void CostKernels::softmax_coupling(const SoftMaxCost& rule, const TargetView& target,
                                   VectorView<std::int64_t> coupling, std::int64_t* out_of_range) {
  require(out_of_range != nullptr, "softmax_coupling: out_of_range must be given");
  require(coupling_from_targets(rule),
          "softmax_coupling: this loss needs the pre-activations; call it block by block");
  require_target(target, coupling.size, 0, 0);
  do_target_coupling(rule, target, coupling, out_of_range);
}

void CostKernels::softmax_coupling(const SoftMaxCost& rule, const TargetView& target,
                                   Index first_unit, MatrixView<const float> z,
                                   const SoftMaxRows& rows, VectorView<std::int64_t> coupling,
                                   std::int64_t* out_of_range) {
  require(out_of_range != nullptr, "softmax_coupling: out_of_range must be given");
  require_target(target, z.rows, first_unit, z.cols);
  require_rows(rows, z.rows);
  require(coupling.size == z.rows, "softmax_coupling: coupling must hold one number a row");
  do_block_coupling(rule, target, first_unit, z, rows, coupling, out_of_range);
}

void CostKernels::softmax_delta(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                                const SoftMaxRows& rows, MatrixView<float> z_to_delta, double* cost,
                                MatrixView<Bfloat16> bf16) {
  require_target(target, z_to_delta.rows, first_unit, z_to_delta.cols);
  require_bf16(bf16, z_to_delta);
  require_rows(rows, z_to_delta.rows);
  require(rows.coupling.size == z_to_delta.rows,
          "softmax_delta: coupling must hold one number a row");
  do_softmax_delta(rule, target, first_unit, rows, z_to_delta, cost, bf16);
}

void CostKernels::softmax_values(const SoftMaxRows& rows, MatrixView<float> z_to_y) {
  require_rows(rows, z_to_y.rows);
  do_softmax_values(rows, z_to_y);
}

}  // namespace norn
