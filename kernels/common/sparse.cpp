// SPDX-License-Identifier: Apache-2.0
// The sparse kernels' door: shapes are checked here, once for all devices.

#include "kernels/sparse.h"

#include "kernels/common/shape_text.h"

#include <limits>

namespace norn {
namespace {

void require_rows(std::string_view operation, const UpdateRule& rule, const RowState& rows) {
  bool fits = has_valid_stride(rows.w) && rows.steps_done.size == rows.w.rows;
  for (int i = 0; i < slots_of(rule); ++i) {
    const MatrixView<float>& slot = rows.slot[std::size_t(i)];
    fits = fits && slot.rows == rows.w.rows && slot.cols == rows.w.cols && has_valid_stride(slot);
  }
  require_fit(fits, operation,
              "w [N x M], steps_done [N] and as many slots [N x M] as the rule has", rows.w,
              rows.steps_done, rows.slot);
}

}  // namespace

void SparseKernels::multiply(CsrView x, MatrixView<const float> w, MatrixView<float> z) {
  require_fit(x.cols == w.rows && z.rows == x.rows && z.cols == w.cols && has_valid_stride(w) &&
                  has_valid_stride(z),
              "sparse multiply", "x [B x N], w [N x M], z [B x M]", x, w, z);
  if (z.empty()) return;
  do_multiply(x, w, {}, z);
}

void SparseKernels::affine(CsrView x, MatrixView<const float> w, VectorView<const float> bias,
                           MatrixView<float> z) {
  require_fit(x.cols == w.rows && z.rows == x.rows && z.cols == w.cols && bias.size == w.cols &&
                  has_valid_stride(w) && has_valid_stride(z),
              "sparse affine", "x [B x N], w [N x M], bias [M], z [B x M]", x, w, bias, z);
  if (z.empty()) return;
  do_multiply(x, w, bias, z);
}

void SparseKernels::multiply_by_rows(MatrixView<const float> x, CsrView f, Existing existing,
                                     MatrixView<float> z) {
  require_fit(x.cols == f.cols && z.rows == x.rows && z.cols == f.rows && has_valid_stride(x) &&
                  has_valid_stride(z),
              "sparse multiply_by_rows", "x [B x N], f [M x N], z [B x M]", x, f, z);
  if (z.empty()) return;
  do_multiply_by_rows(x, f, existing, z);
}

void SparseKernels::transpose(CsrView x, TransposedBatch& transposed) {
  require_fit(x.cols <= Index(std::numeric_limits<Column>::max()) + 1 &&
                  x.rows <= std::numeric_limits<std::int32_t>::max() &&
                  x.entry_limit <= Index(std::numeric_limits<std::uint32_t>::max()),
              "sparse transpose", "fewer than 2^32 columns and entries and 2^31 rows", x);
  do_transpose(x, transposed);
}

void SparseKernels::gradient(const TransposedBatch& xt, DenseOperand delta, float scale,
                             MatrixView<float> g) {
  require_fit(g.rows == xt.cols && g.cols == delta.cols() && fits(delta) && has_valid_stride(g),
              "sparse gradient", "delta [B x M], g [N x M] with N as in the batch", delta.values,
              g);
  if (g.empty()) return;
  do_gradient(xt, delta, scale, g);
}

void SparseKernels::update_rows(const UpdateRule& rule, const UpdateSchedule& schedule,
                                std::int64_t step, const TransposedBatch& xt, DenseOperand delta,
                                float scale, const RowState& rows) {
  require_rows("sparse update_rows", rule, rows);
  require_fit(rows.w.rows == xt.cols && rows.w.cols == delta.cols() && fits(delta),
              "sparse update_rows", "delta [B x M], w [N x M] with N as in the batch", delta.values,
              rows.w);
  if (rows.w.empty()) return;
  do_update_rows(rule, schedule, step, xt, delta, scale, rows);
}

void SparseKernels::mark_done(const TransposedBatch& xt, std::int64_t step,
                              VectorView<std::int64_t> steps_done) {
  require_fit(steps_done.size == xt.cols, "sparse mark_done",
              "steps_done [N] with N as in the batch", steps_done);
  do_mark_done(xt, step, steps_done);
}

void SparseKernels::catch_up(const UpdateRule& rule, const UpdateSchedule& schedule,
                             std::int64_t step, const RowState& rows) {
  require_rows("sparse catch_up", rule, rows);
  do_catch_up(rule, schedule, step, rows);
}

void SparseKernels::catch_up(const UpdateRule& rule, const UpdateSchedule& schedule,
                             std::int64_t step, const TransposedBatch& xt, const RowState& rows) {
  require_rows("sparse catch_up", rule, rows);
  require_fit(rows.w.rows == xt.cols, "sparse catch_up", "w [N x M] with N as in the batch",
              rows.w);
  do_catch_up_batch(rule, schedule, step, xt, rows);
}

}  // namespace norn
