// SPDX-License-Identifier: Apache-2.0
// Costs and deltas of independent output units on the CPU.
#include "kernels/cpu/cost_kernels.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/strips.h"

#include <algorithm>
#include <vector>

namespace norn {
namespace {

/// One activation with one loss, over parts of a row.
template <typename F, typename L>
struct UnitLoss {
  F f;
  L loss;
  DeltaBoost boost;

  /// z becomes factor * delta for target 0; returns the cost.
  double evaluate_zeros(float factor, float* z, Index n) const {
    const F activation = f;  // copies that stores to z cannot alias
    const L local_loss = loss;
    return strips::sum_of_strips(n, [&](Index first, Index count, float* cost) {
      float* strip = z + first;
      for (Index c = 0; c < count; ++c) {
        const ElementCost<float> e = element_cost(activation, local_loss, strip[c], 0.0f);
        cost[c] = e.cost;
        strip[c] = factor * e.delta;
      }
    });
  }

  /// z becomes factor * delta for the targets t; returns the cost.
  double evaluate_dense(float factor, const float* t, float* z, Index n) const {
    const F activation = f;
    const L local_loss = loss;
    return strips::sum_of_strips(n, [&](Index first, Index count, float* cost) {
      float* strip = z + first;
      const float* targets = t + first;
      for (Index c = 0; c < count; ++c) {
        const ElementCost<float> e = element_cost(activation, local_loss, strip[c], targets[c]);
        cost[c] = e.cost;
        strip[c] = factor * e.delta;
      }
    });
  }

  /// A row with stored targets: every unit as target 0, then the stored ones put right.
  double evaluate_sparse(const RowTargets& row, AbsentEntries absent, Index first_unit, float* z,
                         Index n, std::vector<float>& saved) const {
    const bool counts_absent = absent == AbsentEntries::count_as_zero;
    save_stored(row, first_unit, z, saved);
    double cost = 0;
    if (counts_absent)
      cost = evaluate_zeros(row.weight * boost.zero, z, n);
    else
      std::fill(z, z + n, 0.0f);
    const float factor = row.weight * boost.one;
    for (Index i = 0; i < row.stored; ++i) {
      const float z_i = saved[std::size_t(i)];
      const StoredTarget stored = row.entry(i);
      const ElementCost<float> e = element_cost(f, loss, z_i, loss.stored_target(stored.value));
      z[Index(row.column[i]) - first_unit] = factor * stored.weight * e.delta;
      cost += double(stored.weight) * double(e.cost);
      if (counts_absent) cost -= double(element_cost(f, loss, z_i, 0.0f).cost);
    }
    return cost;
  }
};

template <typename F, typename L>
double evaluate_block(Executor& executor, const UnitLoss<F, L>& loss_function,
                      const TargetView& target, Index first_unit, MatrixView<float> z,
                      MatrixView<Bfloat16> bf16) {
  const AbsentEntries absent = absent_entries(target);
  std::vector<double> row_cost(std::size_t(z.rows));
  executor.for_ranges(
      z.rows, strips::rows_per_task(z.cols), [&](Index begin, Index end, int /*lane*/) {
        std::vector<float> saved;
        for (Index r = begin; r < end; ++r) {
          const RowTargets row = row_targets(target, r, first_unit, z.cols);
          double cost = 0;
          if (target.is_sparse) {
            cost = loss_function.evaluate_sparse(row, absent, first_unit, z.row(r), z.cols, saved);
          } else {
            cost = loss_function.evaluate_dense(row.weight, row.dense, z.row(r), row.dense_count);
            cost += loss_function.evaluate_zeros(row.weight, z.row(r) + row.dense_count,
                                                 z.cols - row.dense_count);
          }
          row_cost[std::size_t(r)] = double(row.weight) * cost;
          cast_row(z, r, bf16);
        }
      });
  return sum_in_order(row_cost);
}

}  // namespace

void CpuCostKernels::do_delta(const UnitCost& rule, const TargetView& target, Index first_unit,
                              MatrixView<float> z_to_delta, double* cost,
                              MatrixView<Bfloat16> bf16) {
  *cost = std::visit(
      [&](const auto& f, const auto& loss) {
        using F = std::remove_cvref_t<decltype(f)>;
        using L = std::remove_cvref_t<decltype(loss)>;
        const UnitLoss<F, L> loss_function{f, loss, boost_of(rule, target.is_sparse)};
        return evaluate_block(executor_, loss_function, target, first_unit, z_to_delta, bf16);
      },
      rule.activation, rule.loss);
}

std::unique_ptr<CostKernels> make_cpu_cost(Executor& executor) {
  return std::make_unique<CpuCostKernels>(executor);
}

}  // namespace norn
