// SPDX-License-Identifier: Apache-2.0
// Gradients of a sparse source's weights: sums of the segments of popular units, and whole
// matrices.
#include "kernels/cuda/row_sums.cuh"
#include "kernels/cuda/sparse_units.cuh"

namespace norn::cuda {
namespace {

/// The unit that holds entry `at`. Each lane looks at one of 32 places at a time.
__device__ Index unit_holding(const UnitLists& lists, RowOffset at) {
  const Index lane = Index(threadIdx.x % kWarp);
  Index low = 0, high = lists.touched;  // begin[low] <= at < begin[high]
  while (high - low > 1) {
    const Index part = (high - low + kWarp - 1) / kWarp;
    const Index probe = low + (lane + 1) * part;
    const unsigned before = __ballot_sync(kAllLanes, probe < high && lists.begin[probe] <= at);
    low += __popc(before) * part;
    high = low + part < high ? low + part : high;
  }
  return low;
}

/// Sums the segment that begins among entries [64 w, 64 w + 64), when there is one.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    sum_segment(UnitLists lists, MatrixView<const T> delta, Index slices, float* sums,
                Index stride) {
  const Index item = Index(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  const Index window = item / slices;
  const RowOffset from = window * kSegment;
  if (from >= lists.begin[lists.touched]) return;
  const UnitRange unit = unit_range(lists, unit_holding(lists, from));
  const Index number = (from - Index(unit.begin) + kSegment - 1) / kSegment;
  const RowOffset first = Index(unit.begin) + number * kSegment;
  if (number == 0 || first >= Index(unit.end)) return;

  const LaneColumn at = lane_column<kWidth>(item % slices, delta.cols);
  const std::uint32_t begin = std::uint32_t(first);
  const std::uint32_t end = unit.end - begin > kSegment ? begin + kSegment : unit.end;
  Entries<std::int32_t> entries(lists.example, lists.value, end);
  entries.start(begin);
  Lane<kWidth> sum = {};
  entries.template add_rows<kWidth, 8>(begin, end, delta.data + at.column,
                                       std::uint32_t(delta.stride), sum);
  if (at.active) store_lane<kWidth>(sums + window * stride + at.column, sum);
}

template <int kWidth>
struct GradientSink {
  MatrixView<float> g;
  float scale;

  struct State {};
  __device__ State load(Index, Index) const { return {}; }
  __device__ std::uint32_t progress(Index) const { return 0; }
  __device__ void store(State, Lane<kWidth> sum, Index row, std::uint32_t, LaneColumn at) const {
    for (int j = 0; j < kWidth; ++j) sum.v[j] *= scale;
    if (at.active) store_lane<kWidth>(g.row(row) + at.column, sum);
  }
};

__global__ void __launch_bounds__(kRowWarps* kWarp) fill_rows_with_zero(MatrixView<float> m) {
  const Index warps = Index(gridDim.x) * kRowWarps;
  for (Index r = Index(blockIdx.x) * kRowWarps + threadIdx.x / kWarp; r < m.rows; r += warps)
    for (Index c = threadIdx.x % kWarp; c < m.cols; c += kWarp) m(r, c) = 0.0f;
}

void fill_zero(const Stream& stream, MatrixView<float> m) {
  if (m.stride == m.cols) {
    check(cudaMemsetAsync(m.data, 0, std::size_t(m.size()) * sizeof(float), stream.stream),
          "cudaMemsetAsync");
    return;
  }
  const unsigned blocks = blocks_for(m.rows, kRowWarps, 16 * Index(stream.multiprocessors));
  fill_rows_with_zero<<<blocks, kRowWarps * kWarp, 0, stream.stream>>>(m);
  check_launch("fill_rows_with_zero");
}

template <int kWidth, typename T>
void launch_sum_segment(const Stream& stream, const TransposedBatch& xt, MatrixView<const T> delta,
                        Index windows, float* sums, Index stride) {
  const Index slices = slices_of<kWidth>(delta.cols);
  const auto blocks = unsigned((windows * slices + kRowWarps - 1) / kRowWarps);
  sum_segment<kWidth, T>
      <<<blocks, kRowWarps * kWarp, 0, stream.stream>>>(lists_of(xt), delta, slices, sums, stride);
  check_launch("sum_segment");
}

}  // namespace

SegmentSums sum_segments(const Stream& stream, SparseWorkspace& workspace,
                         const TransposedBatch& xt, const DenseOperand& delta) {
  const Index limit = xt.example.size();
  if (limit <= kSegment) return {};
  const Index windows = (limit + kSegment - 1) / kSegment;
  const Index stride = (delta.cols() + 3) / 4 * 4;
  float* sums = workspace.partial.reserve(windows * stride);
  with_rows_of(delta, [&](auto rows) {
    if (in_fours(rows))
      launch_sum_segment<4>(stream, xt, rows, windows, sums, stride);
    else
      launch_sum_segment<1>(stream, xt, rows, windows, sums, stride);
  });
  return {sums, stride};
}

void write_gradient(const Stream& stream, SparseWorkspace& workspace, const TransposedBatch& xt,
                    const DenseOperand& delta, float scale, MatrixView<float> g) {
  fill_zero(stream, g);
  if (xt.touched == 0) return;
  const SegmentSums segments = sum_segments(stream, workspace, xt, delta);
  with_rows_of(delta, [&](auto rows) {
    if (in_fours(rows) && in_fours(g))
      launch_sum_units<4>(stream, xt, rows, segments, GradientSink<4>{g, scale});
    else
      launch_sum_units<1>(stream, xt, rows, segments, GradientSink<1>{g, scale});
  });
}

}  // namespace norn::cuda
