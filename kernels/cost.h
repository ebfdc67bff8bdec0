// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/loss.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

/// Cost and delta of one block of an output layer, from its pre-activations and the targets.
namespace norn {

/// A stored entry: the target's value, and what its cost and delta are multiplied by.
struct StoredTarget {
  float value = 1.0f;
  float weight = 1.0f;
};

/// The targets of a batch; a kernel looks at the columns of its own block.
struct TargetView {
  CsrView sparse;  ///< whole rows; columns ascend within a row. Used when is_sparse.
  MatrixView<const float>
      dense;  ///< [B x width of the data]. Units beyond it have target 0. Used otherwise.
  bool is_sparse = true;
  bool ignore_absent =
      false;  ///< SparseIgnoreZero: entries that are not stored have neither cost nor delta
  VectorView<const float> weight;       ///< [B] weight of each example, or empty for 1
  const float* entry_weight = nullptr;  ///< one a stored entry of `sparse`, at least 0; null: 1

  NORN_HD StoredTarget stored(RowOffset entry) const {
    return {sparse.value == nullptr ? 1.0f : sparse.value[entry],
            entry_weight == nullptr ? 1.0f : entry_weight[entry]};
  }
};

/// The loss of a layer of independent units.
struct UnitCost {
  Activation activation;
  Loss loss;
  float boost_one = 1.0f;   ///< factor of the deltas of stored entries (sparse targets)
  float boost_zero = 1.0f;  ///< factor of the deltas of absent entries (sparse targets)
};

/// What one stored target counts for under SoftMax when examples have no weight of their own.
enum class TargetWeight {
  inverse_count,  ///< 1 / number of the example's stored targets: DSSTNE's
  one             ///< 1: the multinomial likelihood
};

/// The loss of a SoftMax layer.
struct SoftMaxCost {
  Loss loss;
  TargetWeight target_weight = TargetWeight::inverse_count;
  float boost_one = 1.0f;  ///< as UnitCost's: of the finished delta, the coupling is without it
  float boost_zero = 1.0f;
};

/// What the blocks of a SoftMax layer must know of each other, one number an example.
struct SoftMaxRows {
  VectorView<const float> maximum;       ///< [B] largest pre-activation of the row
  VectorView<const std::int64_t> total;  ///< [B] sum of exp(z - maximum), in units of 2^-36
  VectorView<const std::int64_t>
      coupling;  ///< [B] sum over k of y_k * d cost / d y_k, in units of 2^-36
};

/// Factors of the deltas of stored and of absent entries.
struct DeltaBoost {
  float one;
  float zero;
};
/// Sparse targets alone have them; with them every loss and every activation.
template <typename Cost>
NORN_HD DeltaBoost boost_of(const Cost& rule, bool is_sparse) {
  return {is_sparse ? rule.boost_one : 1.0f, is_sparse ? rule.boost_zero : 1.0f};
}

class CostKernels {
 public:
  virtual ~CostKernels() = default;
  static constexpr int row_fraction_bits = 36;

  /// delta = weight * boost * d cost / d z in place of z; *cost = the block's summed cost (without
  /// boost). The weight is the example's, of stored entries times their own.
  ///   z_to_delta [B x W] pre-activations of units [first_unit, first_unit + W)
  ///   bf16 [B x W] also becomes the delta as a bf16 copy; or empty
  /// Deltas are per example: not divided by the batch. Costs are summed in float64 in a fixed
  /// order; `cost` points into the device's memory.
  void delta(const UnitCost& rule, const TargetView& target, Index first_unit,
             MatrixView<float> z_to_delta, double* cost, MatrixView<Bfloat16> bf16 = {});

  /// maximum[b] = largest z(b, .) and NaN when one is NaN, sum[b] = sum of exp(z(b, .) -
  /// maximum[b]) over the block.
  void softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                          VectorView<float> sum);
  /// Combines the statistics of `blocks` blocks: maximum[b] over all.   block_maximum [blocks x B]
  void softmax_maximum(MatrixView<const float> block_maximum, VectorView<float> maximum);
  /// total[b] += sum over blocks of block_sum * exp(block_maximum - maximum[b]), in fixed point.
  /// *out_of_range becomes 1 when a sum is beyond 2^26; it is never cleared.
  void softmax_total(MatrixView<const float> block_maximum, MatrixView<const float> block_sum,
                     VectorView<const float> maximum, VectorView<std::int64_t> total,
                     std::int64_t* out_of_range);

  /// Whether the coupling follows from the targets alone: cross entropies that no margin gates (a
  /// one_target of 1 or more lets go of nothing).
  static bool coupling_from_targets(const SoftMaxCost& rule);
  /// coupling[b] = -(sum of the row's target weights), from whole rows. Only when
  /// coupling_from_targets().
  void softmax_coupling(const SoftMaxCost& rule, const TargetView& target,
                        VectorView<std::int64_t> coupling, std::int64_t* out_of_range);
  /// coupling[b] += the block's part of sum over k of y_k * d cost / d y_k, for any loss.
  /// rows.coupling is not read. *out_of_range as above.
  void softmax_coupling(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                        MatrixView<const float> z, const SoftMaxRows& rows,
                        VectorView<std::int64_t> coupling, std::int64_t* out_of_range);

  /// delta_j = boost * y_j * (d cost / d y_j - coupling) in place of z; *cost = the block's summed
  /// cost (without boost).
  /// Cross entropies read the stored targets only: cost = sum of tau * -ln y, with tau what
  /// kernels/softmax_target.h says. With ignore_absent, absent entries have no delta at all.
  /// Two things are exact where y rounds to 0: tau * -ln y, and the delta, which is
  /// boost * (y_j * (sum of tau) - tau_j).
  void softmax_delta(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                     const SoftMaxRows& rows, MatrixView<float> z_to_delta, double* cost,
                     MatrixView<Bfloat16> bf16 = {});
  /// y_j = exp(z_j - maximum) / total in place of z, for prediction.
  void softmax_values(const SoftMaxRows& rows, MatrixView<float> z_to_y);

 private:
  virtual void do_delta(const UnitCost& rule, const TargetView& target, Index first_unit,
                        MatrixView<float> z_to_delta, double* cost, MatrixView<Bfloat16> bf16) = 0;
  virtual void do_softmax_statistics(MatrixView<const float> z, VectorView<float> maximum,
                                     VectorView<float> sum) = 0;
  virtual void do_softmax_maximum(MatrixView<const float> block_maximum,
                                  VectorView<float> maximum) = 0;
  virtual void do_softmax_total(MatrixView<const float> block_maximum,
                                MatrixView<const float> block_sum, VectorView<const float> maximum,
                                VectorView<std::int64_t> total, std::int64_t* out_of_range) = 0;
  virtual void do_target_coupling(const SoftMaxCost& rule, const TargetView& target,
                                  VectorView<std::int64_t> coupling,
                                  std::int64_t* out_of_range) = 0;
  virtual void do_block_coupling(const SoftMaxCost& rule, const TargetView& target,
                                 Index first_unit, MatrixView<const float> z,
                                 const SoftMaxRows& rows, VectorView<std::int64_t> coupling,
                                 std::int64_t* out_of_range) = 0;
  virtual void do_softmax_delta(const SoftMaxCost& rule, const TargetView& target, Index first_unit,
                                const SoftMaxRows& rows, MatrixView<float> z_to_delta, double* cost,
                                MatrixView<Bfloat16> bf16) = 0;
  virtual void do_softmax_values(const SoftMaxRows& rows, MatrixView<float> z_to_y) = 0;
};

}  // namespace norn
