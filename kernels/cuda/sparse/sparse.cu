// SPDX-License-Identifier: Apache-2.0
// Products of a sparse batch with dense weights on a GPU.
#include "kernels/cuda/families.h"
#include "kernels/cuda/sparse/row_stream.cuh"
#include "kernels/cuda/sparse/sparse_slices.cuh"
#include "kernels/sparse.h"

#include <algorithm>

namespace norn::cuda {
namespace {

/// Where sums begin, and where they go: from one row for all, or from what z holds.
struct Sums {
  MatrixView<float> z;
  const float* bias;  // null: from z

  __device__ const float* start(Index row, Index column) const {
    return (bias ? bias : z.row(row)) + column;
  }
};

/// One warp for each row of the batch and run of columns, in stored order.
template <int kWidth>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    multiply_rows(CsrView x, MatrixView<const float> w, Sums sums, Index slices) {
  __shared__ RowStage<kWidth> stage;
  const Index item = Index(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  const Index row = item / slices;
  if (row >= x.rows) return;
  const RowOffset first = x.row_begin[row], end = x.row_begin[row + 1];
  const ListedRows<Column> list{x.column + first, x.value ? x.value + first : nullptr, end - first};
  const LaneColumn at = lane_column<kWidth>(item % slices, sums.z.cols);
  Lane<kWidth> sum = load_lane<kWidth>(sums.start(row, at.column));
  add_streamed_rows<kWidth>(list, w.data + at.column, w.stride, stage, sum);
  if (at.active) store_lane<kWidth>(sums.z.row(row) + at.column, sum);
}

constexpr int kThreads = 1024;
/// What a row costs besides its entries, in entries.
constexpr Index kRowCost = 8;

/// The first row before which rows of the batch cost `cost` or more. For all lanes of a warp.
__device__ Index row_after(const CsrView& x, Index cost) {
  const Index lane = Index(threadIdx.x % kWarp);
  Index low = 0, high = x.rows;
  while (low < high) {
    const Index part = (high - low + kWarp - 1) / kWarp;
    const Index probe = low + lane * part;
    const bool before =
        probe < high && x.row_begin[probe] - x.row_begin[0] + kRowCost * probe < cost;
    const int count = __popc(__ballot_sync(kAllLanes, before));
    if (count == 0) return low;
    high = low + count * part < high ? low + count * part : high;
    low += (count - 1) * part + 1;
  }
  return low;
}

/// A block takes a part of all rows of one run of columns, of the next run and so on, as long as
/// the others' parts; its warps take the rows in turn. So a multiprocessor reads few columns of w
/// at a time, and finds the popular rows in its nearest cache. Sums run in stored order.
template <int kWidth>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_slices(CsrView x, MatrixView<const float> w, Sums sums, Index slices) {
  __shared__ Index bound[2];  // of the block's items: slice * rows + row
  __shared__ unsigned taken;
  const int warp = int(threadIdx.x / kWarp);
  if (warp < 2) {
    const Index slice_cost = x.row_begin[x.rows] - x.row_begin[0] + kRowCost * x.rows;
    const Index cost = (blockIdx.x + warp) * (slice_cost * slices) / gridDim.x;
    const Index row = row_after(x, cost % slice_cost);
    if (threadIdx.x % kWarp == 0) bound[warp] = cost / slice_cost * x.rows + row;
  }
  if (threadIdx.x == 0) taken = kThreads / kWarp;
  __syncthreads();
  const Index first = bound[0], count = bound[1] - first;
  for (Index i = warp; i < count;) {
    const Index row = (first + i) % x.rows, slice = (first + i) / x.rows;
    const RowOffset begin = x.row_begin[row];
    const auto entry_count = std::uint32_t(x.row_begin[row + 1] - begin);
    Entries<Column> entries(x.column + begin, x.value ? x.value + begin : nullptr, entry_count);
    entries.start(0);
    const LaneColumn at = lane_column<kWidth>(slice, sums.z.cols);
    Lane<kWidth> sum = load_lane<kWidth>(sums.start(row, at.column));
    if (threadIdx.x % kWarp == 0) i = atomicAdd(&taken, 1u);
    entries.template add_rows<kWidth, 4>(0, entry_count, w.data + at.column,
                                         std::uint32_t(w.stride), sum);
    if (at.active) store_lane<kWidth>(sums.z.row(row) + at.column, sum);
    i = __shfl_sync(kAllLanes, i, 0);
  }
}

template <int kWidth>
void launch_multiply(const Stream& stream, CsrView x, MatrixView<const float> w, const Sums& sums) {
  const Index slices = slices_of<kWidth>(sums.z.cols);
  if (has_many_entries(x.entry_limit, x.cols)) {
    const unsigned blocks = blocks_for(x.rows * slices, 1, stream.multiprocessors);
    multiply_slices<kWidth><<<blocks, kThreads, 0, stream.stream>>>(x, w, sums, slices);
    check_launch("multiply_slices");
    return;
  }
  const auto blocks = unsigned((x.rows * slices + kRowWarps - 1) / kRowWarps);
  multiply_rows<kWidth><<<blocks, kRowWarps * kWarp, 0, stream.stream>>>(x, w, sums, slices);
  check_launch("multiply_rows");
}

constexpr int kUnitThreads = 128;
constexpr int kThreadRows = 8;

/// One thread for a row of f and some rows of x, which share its entries.
__global__ void __launch_bounds__(kUnitThreads)
    multiply_by_listed_rows(MatrixView<const float> x, CsrView f, bool adds, MatrixView<float> z) {
  const Index unit = Index(blockIdx.x) * kUnitThreads + threadIdx.x;
  if (unit >= f.rows) return;
  const RowOffset begin = f.row_begin[unit], end = f.row_begin[unit + 1];
  for (Index first = Index(blockIdx.y) * kThreadRows; first < x.rows;
       first += Index(gridDim.y) * kThreadRows) {
    float sum[kThreadRows] = {};
    for (RowOffset i = begin; i < end; ++i) {
      const float value = f.value ? f.value[i] : 1.0f;
      const float* from = x.row(first) + f.column[i];
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r)
        if (first + r < x.rows) sum[r] += value * from[r * x.stride];
    }
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      if (first + r >= x.rows) break;
      float& to = z(first + r, unit);
      to = adds ? to + sum[r] : sum[r];
    }
  }
}

class CudaSparse final : public SparseKernels {
 public:
  explicit CudaSparse(const Stream& stream) : stream_(stream), workspace_(stream) {}

 private:
  void do_multiply(CsrView x, MatrixView<const float> w, VectorView<const float> bias,
                   MatrixView<float> z) override {
    const Sums sums{z, bias.data};
    const MatrixView<const float> start{bias.data, 1, bias.size, 4};
    if (in_fours(w) && in_fours(z) && in_fours(start))
      launch_multiply<4>(stream_, x, w, sums);
    else
      launch_multiply<1>(stream_, x, w, sums);
  }
  void do_multiply_by_rows(MatrixView<const float> x, CsrView f, Existing existing,
                           MatrixView<float> z) override {
    constexpr Index kMostBlocks = 65535;  // along y
    const dim3 blocks(unsigned((f.rows + kUnitThreads - 1) / kUnitThreads),
                      unsigned(std::min(kMostBlocks, (x.rows + kThreadRows - 1) / kThreadRows)));
    multiply_by_listed_rows<<<blocks, kUnitThreads, 0, stream_.stream>>>(
        x, f, existing == Existing::add, z);
    check_launch("multiply_by_listed_rows");
  }
  void do_transpose(CsrView x, TransposedBatch& transposed) override {
    transpose_batch(stream_, workspace_, x, transposed);
  }
  void do_gradient(const TransposedBatch& xt, DenseOperand delta, float scale,
                   MatrixView<float> g) override {
    write_gradient(stream_, workspace_, xt, delta, scale, g);
  }
  void do_update_rows(const UpdateRule& rule, const UpdateSchedule& schedule, std::int64_t step,
                      const TransposedBatch& xt, DenseOperand delta, float scale,
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
