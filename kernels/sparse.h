// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/dense.h"
#include "kernels/update.h"
#include "src/tensor/buffer.h"

#include <array>
#include <cstdint>

/// Products of a sparse batch with dense weights. Weights of a sparse source are stored [N x M]:
/// one row per source unit, so that an entry of the batch reads one contiguous row. A GPU reads the
/// bf16 deltas where they are given: operands in bfloat16, sums in float32. The CPU reads the
/// others.
namespace norn {

/// A transposed sparse batch: for each source unit that occurs, the examples that hold it, in
/// order of example. On a GPU `touched` is only a limit, of what the host knows of the batch:
/// beyond the units that occur, `unit` is no_unit and `begin` repeats the number of entries.
struct TransposedBatch {
  static constexpr Column no_unit = 0xFFFFFFFFu;
  Buffer<Column> unit;           ///< [touched] source units that occur, ascending
  Buffer<RowOffset> begin;       ///< [touched + 1] ranges of `example`
  Buffer<std::int32_t> example;  ///< row numbers within the batch
  Buffer<float> value;           ///< as in the batch, when has_values
  bool has_values = false;
  Index touched = 0;
  Index cols = 0;                   ///< source units in all
  Buffer<std::uint64_t> workspace;  ///< of transpose(), kept from batch to batch
  Buffer<std::uint32_t> segments;  ///< a GPU's list of what popular units are summed from, or empty
};

/// Weights of a sparse source with the state that their update rule keeps.
struct RowState {
  MatrixView<float> w;  ///< [N x M]
  SlotViews slot;       ///< [N x M] each; as many as the rule has
  VectorView<std::int64_t>
      steps_done;  ///< [N]: steps that the row has been through; rows may lag behind
};

class SparseKernels {
 public:
  virtual ~SparseKernels() = default;

  /// z += x * w.
  ///   x [B x N] CSR,  w [N x M],  z [B x M]
  /// Sums start from z and run in stored order in float32: the bits of a column depend on that
  /// column of w alone. Column numbers are trusted: the data set checks them when
  /// it is read.
  void multiply(CsrView x, MatrixView<const float> w, MatrixView<float> z);
  /// z = bias + x * w, with the bits of a z that held bias [M] in every row before multiply().
  void affine(CsrView x, MatrixView<const float> w, VectorView<const float> bias,
              MatrixView<float> z);

  /// z = x * f^T, or z += it, for sparse rows f that are no batch: features of units.
  ///   x [B x N],  f [M x N] CSR,  z [B x M]
  /// Each sum begins with 0 and runs in stored order in float32, so that an element depends on its
  /// row of x and its row of f alone.
  void multiply_by_rows(MatrixView<const float> x, CsrView f, Existing existing,
                        MatrixView<float> z);

  /// Transposes a batch. Entries of a unit keep the order of their examples; a unit that occurs
  /// twice in one example is listed twice. Cost: O(entries).
  void transpose(CsrView x, TransposedBatch& transposed);

  /// g = scale * x^T * delta, all N rows written (rows of units that do not occur become zero).
  ///   delta [B x M],  g [N x M]
  /// Sums run in order of example in float32 and are then multiplied by scale.
  void gradient(const TransposedBatch& xt, DenseOperand delta, float scale, MatrixView<float> g);

  /// Brings every row that occurs in the batch up to step `step` and applies that step to it with
  /// its gradient scale * x^T * delta. A row that lags behind is first put through the steps that
  /// it missed, with gradient 0, so the result has the bits of a dense update of all rows at every
  /// step. steps_done is left as it was: blocks of one matrix call this for their own columns; call
  /// mark_done after the last. Throws ShapeError when a row is already past step `step` (where
  /// the host can read steps_done: not on a GPU).
  void update_rows(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                   const TransposedBatch& xt, DenseOperand delta, float scale,
                   const RowState& rows);
  /// Records that the rows of the batch have been through step `step`.
  void mark_done(const TransposedBatch& xt, std::int64_t step, VectorView<std::int64_t> steps_done);

  /// Puts every row through the steps before `step` that it missed, and records it.
  void catch_up(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                const RowState& rows);
  /// The same for the rows that occur in the batch alone: before its forward product reads them.
  void catch_up(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                const TransposedBatch& xt, const RowState& rows);

 private:
  /// Sums start from bias, or from z where bias is empty.
  virtual void do_multiply(CsrView x, MatrixView<const float> w, VectorView<const float> bias,
                           MatrixView<float> z) = 0;
  virtual void do_multiply_by_rows(MatrixView<const float> x, CsrView f, Existing existing,
                                   MatrixView<float> z) = 0;
  virtual void do_transpose(CsrView x, TransposedBatch& transposed) = 0;
  virtual void do_gradient(const TransposedBatch& xt, DenseOperand delta, float scale,
                           MatrixView<float> g) = 0;
  virtual void do_update_rows(const UpdateRule& rule, const UpdateSchedule& schedule,
                              std::int64_t step, const TransposedBatch& xt, DenseOperand delta,
                              float scale, const RowState& rows) = 0;
  virtual void do_mark_done(const TransposedBatch& xt, std::int64_t step,
                            VectorView<std::int64_t> steps_done) = 0;
  virtual void do_catch_up(const UpdateRule& rule, const UpdateSchedule& schedule,
                           std::int64_t step, const RowState& rows) = 0;
  virtual void do_catch_up_batch(const UpdateRule& rule, const UpdateSchedule& schedule,
                                 std::int64_t step, const TransposedBatch& xt,
                                 const RowState& rows) = 0;
};

}  // namespace norn
