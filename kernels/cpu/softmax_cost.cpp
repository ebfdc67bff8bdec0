// SPDX-License-Identifier: Apache-2.0
// Costs and deltas of SoftMax layers on the CPU, block by block.
#include "kernels/cpu/cost_kernels.h"
#include "kernels/cpu/strips.h"
#include "kernels/softmax_target.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

// Loops over a strip work on copies of their parameters, which stores to the strip cannot alias.
namespace norn {
namespace {

constexpr double kFixedUnit = FixedFormatOfRows::unit;

/// x in units of 2^-36. NaN gives 0: it travels in the row's maximum instead.
std::int64_t to_fixed(double x, std::int64_t* out_of_range) {
  if (std::isnan(x)) return 0;
  if (std::abs(x) >= FixedFormatOfRows::limit) {
    std::atomic_ref<std::int64_t>(*out_of_range).store(1, std::memory_order_relaxed);
    return 0;
  }
  return std::int64_t(std::nearbyint(x / kFixedUnit));
}

/// What a row needs to turn pre-activations into probabilities.
struct RowScale {
  float maximum;
  float inverse_total;
  double log_total;  ///< -ln y = log_total + maximum - z
  double coupling;

  RowScale(const SoftMaxRows& rows, Index r, VectorView<const std::int64_t> couplings)
      : maximum(rows.maximum[r]),
        inverse_total(float(1.0 / (double(rows.total[r]) * kFixedUnit))),
        log_total(std::log(double(rows.total[r]) * kFixedUnit)),
        coupling(couplings.empty() ? 0.0 : double(couplings[r]) * kFixedUnit) {}

  float probability(float z) const { return math::exp_nonpositive(z - maximum) * inverse_total; }
  double minus_log(float z) const { return log_total + (double(maximum) - double(z)); }
};

/// The largest of x, NaN when one is NaN: as integers in the order of the floats, of which
/// compilers vectorise the maximum.
float largest(const float* x, Index n) {
  constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
  constexpr std::int32_t kInfinity = 0x7F800000;
  std::int32_t top = ~kInfinity;  // -inf in that order
  std::int32_t top_magnitude = 0;
  for (Index i = 0; i < n; ++i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(x[i]);
    top = std::max(top, bits ^ ((bits >> 31) & kMagnitude));
    top_magnitude = std::max(top_magnitude, bits & kMagnitude);
  }
  if (top_magnitude > kInfinity) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(top < 0 ? top ^ kMagnitude : top);
}

/// z becomes factor * e^(z - maximum).
void scaled_exponentials(float maximum, float factor, float* z, Index n) {
  for (Index c = 0; c < n; ++c) z[c] = math::exp_nonpositive(z[c] - maximum) * factor;
}

/// The cross entropies: cost = tau * -ln y for the targets, so delta = -coupling * y - tau.
struct CrossEntropyLoss {
  SoftMaxTargetRule rule;

  double coupling(const RowTargets& row, float unit, const RowScale& scale, Index first_unit,
                  const float* z) const {
    double sum = 0;
    for (Index i = 0; i < row.stored; ++i) {
      const float y = scale.probability(z[Index(row.column[i]) - first_unit]);
      sum += double(rule.gated(y, rule.stored(unit, row.entry(i))));
    }
    sum += strips::sum_of_strips(row.dense_count, [&](Index first, Index count, float* tau) {
      for (Index c = 0; c < count; ++c)
        tau[c] =
            rule.gated(scale.probability(z[first + c]), rule.dense(unit, row.dense[first + c]));
    });
    return -sum;
  }

  double evaluate_sparse(const RowTargets& row, float unit, const RowScale& scale,
                         AbsentEntries absent, DeltaBoost boost, Index first_unit, float* z,
                         Index n, std::vector<float>& saved) const {
    save_stored(row, first_unit, z, saved);
    const float factor = float(-scale.coupling) * scale.inverse_total;
    if (absent == AbsentEntries::ignore)
      std::fill(z, z + n, 0.0f);
    else
      scaled_exponentials(scale.maximum, boost.zero * factor, z, n);
    double cost = 0;
    for (Index i = 0; i < row.stored; ++i) {
      const float z_i = saved[std::size_t(i)];
      const float e = math::exp_nonpositive(z_i - scale.maximum);
      const float tau = rule.gated(e * scale.inverse_total, rule.stored(unit, row.entry(i)));
      z[Index(row.column[i]) - first_unit] = boost.one * (e * factor - tau);
      cost += double(tau) * scale.minus_log(z_i);
    }
    return cost;
  }

  double evaluate_dense(RowTargets row, float unit, RowScale scale, float* z, Index n) const {
    const SoftMaxTargetRule targets = rule;
    const float factor = float(-scale.coupling) * scale.inverse_total;
    const float log_total = float(scale.log_total);
    const double cost =
        strips::sum_of_strips(row.dense_count, [&](Index first, Index count, float* terms) {
          for (Index c = 0; c < count; ++c) {
            const float z_c = z[first + c];
            const float e = math::exp_nonpositive(z_c - scale.maximum);
            const float tau =
                targets.gated(e * scale.inverse_total, targets.dense(unit, row.dense[first + c]));
            terms[c] = tau * (log_total + (scale.maximum - z_c));
            z[first + c] = e * factor - tau;
          }
        });
    scaled_exponentials(scale.maximum, factor, z + row.dense_count, n - row.dense_count);
    return cost;
  }
};

/// Any other loss: delta = y * (g - coupling) with g = weight * d cost / d y.
template <typename L>
struct JacobianLoss {
  L loss;

  /// Sum over the units of y * d cost / d y, not yet weighted.
  double coupling(const RowTargets& row, const RowScale& scale, AbsentEntries absent,
                  Index first_unit, const float* z, Index n) const {
    double sum =
        strips::sum_of_strips(row.dense_count, [&](Index first, Index count, float* terms) {
          for (Index c = 0; c < count; ++c) {
            const float y = scale.probability(z[first + c]);
            terms[c] = y * loss.slope(y, row.dense[first + c]);
          }
        });
    const bool counts_absent = absent == AbsentEntries::count_as_zero;
    const float* rest = z + row.dense_count;
    if (counts_absent)
      sum +=
          strips::sum_of_strips(n - row.dense_count, [&](Index first, Index count, float* terms) {
            for (Index c = 0; c < count; ++c) {
              const float y = scale.probability(rest[first + c]);
              terms[c] = y * loss.slope(y, 0.0f);
            }
          });
    for (Index i = 0; i < row.stored; ++i) {
      const float y = scale.probability(z[Index(row.column[i]) - first_unit]);
      const StoredTarget stored = row.entry(i);
      sum += double(y * (stored.weight * loss.slope(y, loss.stored_target(stored.value))));
      if (counts_absent) sum -= double(y * loss.slope(y, 0.0f));
    }
    return sum;
  }

  double evaluate_zeros(float weight, float boost, RowScale scale, float* z, Index n) const {
    const L local_loss = loss;
    const float coupling = float(scale.coupling);
    return strips::sum_of_strips(n, [&](Index first, Index count, float* cost) {
      for (Index c = 0; c < count; ++c) {
        const float y = scale.probability(z[first + c]);
        cost[c] = local_loss.cost(y, 0.0f);
        z[first + c] = boost * (y * (weight * local_loss.slope(y, 0.0f) - coupling));
      }
    });
  }

  double evaluate_dense(RowTargets row, RowScale scale, float* z, Index n) const {
    const L local_loss = loss;
    const float coupling = float(scale.coupling);
    const double cost =
        strips::sum_of_strips(row.dense_count, [&](Index first, Index count, float* terms) {
          for (Index c = 0; c < count; ++c) {
            const float y = scale.probability(z[first + c]);
            const float t = row.dense[first + c];
            terms[c] = local_loss.cost(y, t);
            z[first + c] = y * (row.weight * local_loss.slope(y, t) - coupling);
          }
        });
    return cost + evaluate_zeros(row.weight, 1.0f, scale, z + row.dense_count, n - row.dense_count);
  }

  double evaluate_sparse(const RowTargets& row, const RowScale& scale, AbsentEntries absent,
                         DeltaBoost boost, Index first_unit, float* z, Index n,
                         std::vector<float>& saved) const {
    const bool counts_absent = absent == AbsentEntries::count_as_zero;
    save_stored(row, first_unit, z, saved);
    double cost = 0;
    if (counts_absent)
      cost = evaluate_zeros(row.weight, boost.zero, scale, z, n);
    else
      std::fill(z, z + n, 0.0f);
    const float coupling = float(scale.coupling);
    for (Index i = 0; i < row.stored; ++i) {
      const float y = scale.probability(saved[std::size_t(i)]);
      const StoredTarget stored = row.entry(i);
      const float t = loss.stored_target(stored.value);
      z[Index(row.column[i]) - first_unit] =
          boost.one * (y * (row.weight * stored.weight * loss.slope(y, t) - coupling));
      cost += double(stored.weight) * double(loss.cost(y, t));
      if (counts_absent) cost -= double(loss.cost(y, 0.0f));
    }
    return cost;
  }
};

}  // namespace

void CpuCostKernels::do_softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                                           VectorView<float> sum) {
  executor_.for_ranges(
      z.rows, strips::rows_per_task(z.cols), [&](Index begin, Index end, int /*lane*/) {
        for (Index r = begin; r < end; ++r) {
          const float* row = z.row(r);
          const float top = largest(row, z.cols);
          maximum[r] = top;
          sum[r] = float(strips::sum_of_strips(z.cols, [&](Index first, Index count, float* terms) {
            for (Index c = 0; c < count; ++c)
              terms[c] = math::exp_nonpositive(row[first + c] - top);
          }));
        }
      });
}

void CpuCostKernels::do_softmax_maximum(MatrixView<const float> block_maximum,
                                        VectorView<float> maximum) {
  std::fill(maximum.begin(), maximum.end(), -std::numeric_limits<float>::infinity());
  for (Index block = 0; block < block_maximum.rows; ++block) {
    const float* row = block_maximum.row(block);
    for (Index b = 0; b < maximum.size; ++b)
      maximum[b] = row[b] > maximum[b] || row[b] != row[b] ? row[b] : maximum[b];
  }
}

void CpuCostKernels::do_softmax_total(MatrixView<const float> block_maximum,
                                      MatrixView<const float> block_sum,
                                      VectorView<const float> maximum,
                                      VectorView<std::int64_t> total, std::int64_t* out_of_range) {
  executor_.for_ranges(
      total.size, strips::rows_per_task(block_maximum.rows),
      [&](Index begin, Index end, int /*lane*/) {
        for (Index block = 0; block < block_maximum.rows; ++block)
          for (Index b = begin; b < end; ++b)
            total[b] +=
                to_fixed(double(block_sum(block, b) *
                                math::exp_nonpositive(block_maximum(block, b) - maximum[b])),
                         out_of_range);
      });
}

void CpuCostKernels::do_target_coupling(const SoftMaxCost& rule, const TargetView& target,
                                        VectorView<std::int64_t> coupling,
                                        std::int64_t* out_of_range) {
  const SoftMaxTargetRule targets = *softmax_target_rule(rule.loss);
  executor_.for_ranges(coupling.size, 64, [&](Index begin, Index end, int /*lane*/) {
    for (Index r = begin; r < end; ++r) {
      const Index width = target.is_sparse ? target.sparse.cols : target.dense.cols;
      const RowTargets row = row_targets(target, r, 0, width);
      const float unit = targets.unit(rule, target, r);
      double sum = 0;
      for (Index i = 0; i < row.stored; ++i) sum += double(targets.stored(unit, row.entry(i)));
      for (Index c = 0; c < row.dense_count; ++c) sum += double(targets.dense(unit, row.dense[c]));
      coupling[r] = to_fixed(-sum, out_of_range);
    }
  });
}

void CpuCostKernels::do_block_coupling(const SoftMaxCost& rule, const TargetView& target,
                                       Index first_unit, MatrixView<const float> z,
                                       const SoftMaxRows& rows, VectorView<std::int64_t> coupling,
                                       std::int64_t* out_of_range) {
  const AbsentEntries absent = absent_entries(target);
  const auto for_each_row = [&](const auto& part) {
    executor_.for_ranges(
        z.rows, strips::rows_per_task(z.cols), [&](Index begin, Index end, int /*lane*/) {
          for (Index r = begin; r < end; ++r)
            // Blocks of one layer may come from several lanes at a time.
            std::atomic_ref<std::int64_t>(coupling[r])
                .fetch_add(to_fixed(part(r, row_targets(target, r, first_unit, z.cols),
                                         RowScale(rows, r, {})),
                                    out_of_range),
                           std::memory_order_relaxed);
        });
  };
  if (const std::optional<SoftMaxTargetRule> targets = softmax_target_rule(rule.loss)) {
    for_each_row([&](Index r, const RowTargets& row, const RowScale& scale) {
      return CrossEntropyLoss{*targets}.coupling(row, targets->unit(rule, target, r), scale,
                                                 first_unit, z.row(r));
    });
    return;
  }
  std::visit(
      [&](const auto& loss) {
        const JacobianLoss<std::remove_cvref_t<decltype(loss)>> loss_function{loss};
        for_each_row([&](Index r, const RowTargets& row, const RowScale& scale) {
          return double(row.weight) *
                 loss_function.coupling(row, scale, absent, first_unit, z.row(r), z.cols);
        });
      },
      rule.loss);
}

void CpuCostKernels::do_softmax_delta(const SoftMaxCost& rule, const TargetView& target,
                                      Index first_unit, const SoftMaxRows& rows,
                                      MatrixView<float> z, double* cost,
                                      MatrixView<Bfloat16> bf16) {
  const AbsentEntries absent = absent_entries(target);
  const DeltaBoost boost = boost_of(rule, target.is_sparse);
  std::vector<double> row_cost(std::size_t(z.rows));
  const auto for_each_row = [&](const auto& evaluate_row) {
    executor_.for_ranges(
        z.rows, strips::rows_per_task(z.cols), [&](Index begin, Index end, int /*lane*/) {
          std::vector<float> saved;
          for (Index r = begin; r < end; ++r) {
            row_cost[std::size_t(r)] = evaluate_row(r, row_targets(target, r, first_unit, z.cols),
                                                    RowScale(rows, r, rows.coupling), saved);
            cast_row(z, r, bf16);
          }
        });
    *cost = sum_in_order(row_cost);
  };
  if (const std::optional<SoftMaxTargetRule> targets = softmax_target_rule(rule.loss)) {
    const CrossEntropyLoss loss_function{*targets};
    for_each_row([&](Index r, const RowTargets& row, const RowScale& scale,
                     std::vector<float>& saved) {
      const float unit = targets->unit(rule, target, r);
      return target.is_sparse ? loss_function.evaluate_sparse(row, unit, scale, absent, boost,
                                                              first_unit, z.row(r), z.cols, saved)
                              : loss_function.evaluate_dense(row, unit, scale, z.row(r), z.cols);
    });
    return;
  }
  std::visit(
      [&](const auto& loss) {
        const JacobianLoss<std::remove_cvref_t<decltype(loss)>> loss_function{loss};
        for_each_row(
            [&](Index r, const RowTargets& row, const RowScale& scale, std::vector<float>& saved) {
              return double(row.weight) *
                     (target.is_sparse
                          ? loss_function.evaluate_sparse(row, scale, absent, boost, first_unit,
                                                          z.row(r), z.cols, saved)
                          : loss_function.evaluate_dense(row, scale, z.row(r), z.cols));
            });
      },
      rule.loss);
}

void CpuCostKernels::do_softmax_values(const SoftMaxRows& rows, MatrixView<float> z) {
  executor_.for_ranges(
      z.rows, strips::rows_per_task(z.cols), [&](Index begin, Index end, int /*lane*/) {
        for (Index r = begin; r < end; ++r) {
          const RowScale scale(rows, r, {});
          scaled_exponentials(scale.maximum, scale.inverse_total, z.row(r), z.cols);
        }
      });
}

}  // namespace norn
