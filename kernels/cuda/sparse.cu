// SPDX-License-Identifier: Apache-2.0
// Products of a sparse batch with dense weights on a GPU.
#include "kernels/cuda/families.h"
#include "kernels/cuda/row_stream.cuh"
#include "kernels/cuda/sparse_parts.h"

namespace norn::cuda {
namespace {

/// One warp for each row of the batch and run of columns; sums start from z, in stored order.
template <int kWidth>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    multiply_rows(CsrView x, MatrixView<const float> w, MatrixView<float> z, Index slices) {
  __shared__ RowStage<kWidth> stage;
  const Index item = Index(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  const Index row = item / slices;
  if (row >= x.rows) return;
  const RowOffset first = x.row_begin[row], end = x.row_begin[row + 1];
  const ListedRows<Column> list{x.column + first, x.value ? x.value + first : nullptr, end - first};
  const LaneColumn at = lane_column<kWidth>(item % slices, z.cols);
  float* to = z.row(row) + at.column;
  Lane<kWidth> sum = load_lane<kWidth>(to);
  add_streamed_rows<kWidth>(list, w.data + at.column, w.stride, stage, sum);
  if (at.active) store_lane<kWidth>(to, sum);
}

template <int kWidth>
void launch_multiply(const Stream& stream, CsrView x, MatrixView<const float> w,
                     MatrixView<float> z) {
  const Index slices = slices_of<kWidth>(z.cols);
  const auto blocks = unsigned((x.rows * slices + kRowWarps - 1) / kRowWarps);
  multiply_rows<kWidth><<<blocks, kRowWarps * kWarp, 0, stream.stream>>>(x, w, z, slices);
  check_launch("multiply_rows");
}

class CudaSparse final : public SparseKernels {
 public:
  explicit CudaSparse(const Stream& stream) : stream_(stream), workspace_(stream) {}

 private:
  void do_multiply(CsrView x, MatrixView<const float> w, MatrixView<float> z) override {
    if (in_fours(w) && in_fours(z))
      launch_multiply<4>(stream_, x, w, z);
    else
      launch_multiply<1>(stream_, x, w, z);
  }
  void do_transpose(CsrView x, TransposedBatch& transposed) override {
    transpose_batch(stream_, workspace_, x, transposed);
  }
  void do_gradient(const TransposedBatch& xt, MatrixView<const float> delta, float scale,
                   MatrixView<float> g) override {
    write_gradient(stream_, workspace_, xt, delta, scale, g);
  }
  void do_update_rows(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                      const TransposedBatch& xt, MatrixView<const float> delta, float scale,
                      const RowState& rows) override {
    update_touched_rows(stream_, workspace_, rule, schedule, step, xt, delta, scale, rows);
  }
  void do_mark_done(const TransposedBatch& xt, std::int64_t step,
                    VectorView<std::int64_t> steps_done) override {
    mark_rows_done(stream_, xt, step, steps_done);
  }
  void do_catch_up(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                   const RowState& rows) override {
    catch_up_rows(stream_, workspace_, rule, schedule, step, nullptr, rows);
  }
  void do_catch_up_batch(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                         const TransposedBatch& xt, const RowState& rows) override {
    catch_up_rows(stream_, workspace_, rule, schedule, step, &xt, rows);
  }

  Stream stream_;
  SparseWorkspace workspace_;
};

}  // namespace

std::unique_ptr<SparseKernels> make_sparse(const Stream& stream) {
  return std::make_unique<CudaSparse>(stream);
}

}  // namespace norn::cuda
