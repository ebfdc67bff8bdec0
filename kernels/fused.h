// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/column_runs.h"
#include "kernels/cost.h"
#include "kernels/dense.h"
#include "kernels/update.h"

#include <variant>

/// Products whose result is used up where it is made, so that it never goes through memory. A
/// device may have them for some shapes and rules; callers fall back to the families that each
/// product consists of.
namespace norn {

/// A block of an output layer, on its way from the activations to its deltas.
struct OutputBlock {
  DenseOperand x;                            ///< [B x N]
  DenseOperand w;                            ///< [W x N]
  VectorView<const float> bias;              ///< [W]
  std::variant<UnitCost, SoftMaxCost> rule;  ///< of independent units, or of a SoftMax layer
  TargetView target;
  Index first_unit = 0;
  /// Of the target's rows, for these units among others; without it they are looked up anew.
  ColumnRuns target_runs;
  /// [B x W]; where the stride leaves room, up to a multiple of 4 columns may be written.
  MatrixView<float> delta;
  /// [B x W] or empty; where the stride leaves room, columns up to a multiple of 8 become zero.
  MatrixView<Bfloat16> bf16_delta;
  /// [W x B, rounded up to a multiple of 4] or empty: the deltas transposed, zeros behind them.
  MatrixView<float> transposed_delta;
  double* cost = nullptr;  ///< [blocks] each block's summed cost, as CostKernels::delta gives it
  /// Several blocks may be given as one: cost i is that of units [i * block_width, ...). 0: one.
  Index block_width = 0;
  VectorView<float> bias_gradient;  ///< [W] or empty
  float bias_scale = 1.0f;
};

class FusedKernels {
 public:
  virtual ~FusedKernels() = default;
  /// The first of two passes over a SoftMax layer: CostKernels::softmax_statistics of x * w^T +
  /// bias for each of its blocks of block_width units, to `maximum` and `sum` [blocks x B]. Of
  /// `block`, what comes after first_unit is not read but for block_width. Returns false, and does
  /// nothing, for what it does not support, which then output_delta() does not support either.
  virtual bool softmax_statistics(const OutputBlock& block, MatrixView<float> maximum,
                                  MatrixView<float> sum) = 0;
  /// What the rows of a SoftMax layer have in common, for the calls of output_delta() that come
  /// next. The coupling must follow from the targets (CostKernels::coupling_from_targets).
  virtual void softmax_rows(const SoftMaxCost& rule, const TargetView& target,
                            const SoftMaxRows& rows) = 0;
  /// delta = the block's deltas (CostKernels::delta of x * w^T + bias, or softmax_delta). Where
  /// bf16_delta is given, only that is written; a device that computes in tf32 wants
  /// transposed_delta. bias_gradient = bias_scale * sum over rows of the deltas, of the bf16 ones
  /// where they are given; it and the cost are there once add_totals() is called, which takes the
  /// sums of many blocks at once. Returns false, and does nothing, for what it does not support.
  /// Nothing that becomes of a unit depends on how many others there are in the call.
  virtual bool output_delta(const OutputBlock& block) = 0;
  /// Blocks whose totals were not added up, since something failed, are forgotten.
  virtual void begin_totals() = 0;
  /// Costs and biases' gradients of the blocks since the last call.
  virtual void add_totals() = 0;
  /// One step of the rule for w with the gradient scale * delta^T * x, which is not stored.
  ///   delta [B x W],  x [B x N],  w, slot as for UpdateKernels::update
  /// `block` as for DenseKernels: the bits of a block are the same whatever other blocks are in the
  /// call. Returns false, and does nothing, for what it does not support, whatever the blocks.
  virtual bool update(const UpdateRule& rule, const UpdateStep& step, DenseOperand delta,
                      DenseOperand x, float scale, WeightView w, SlotViews slot,
                      Index block = 0) = 0;
};

}  // namespace norn
