// SPDX-License-Identifier: Apache-2.0
// Gradients of a sparse source's weights: sums of the segments of popular units, and whole
// matrices.
#include "kernels/cuda/sparse/row_sums.cuh"
#include "kernels/cuda/sparse/sparse_units.cuh"

namespace norn::cuda {
namespace {

constexpr int kListThreads = 256;

/// A list of segments, see list_segments().
struct SegmentList {
  const std::uint32_t* words;
  __device__ Index count() const { return words[0]; }
  /// The first entry of a segment, and the one after its last.
  __device__ uint2 operator[](Index i) const {
    return reinterpret_cast<const uint2*>(words)[i + 1];
  }
};

/// Where a segment stands in the list has no say in its sum.
__global__ void write_segments(UnitLists lists, std::uint32_t* count, uint2* segments) {
  for (Index t = blockIdx.x * Index(kListThreads) + threadIdx.x; t < lists.touched;
       t += gridDim.x * Index(kListThreads)) {
    const auto begin = std::uint32_t(lists.begin[t]), end = std::uint32_t(lists.begin[t + 1]);
    if (end - begin <= kSegment) continue;
    std::uint32_t at = atomicAdd(count, (end - begin - 1) / kSegment);
    for (std::uint32_t first = begin + kSegment; first < end; first += kSegment)
      segments[at++] = make_uint2(first, end - first > kSegment ? first + kSegment : end);
  }
}

/// Sums the listed segments, one warp for each and a run of columns. That which begins among
/// entries [64 w, 64 w + 64) goes to row w.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    sum_segment(UnitLists lists, SegmentList segments, MatrixView<const T> delta, Index slices,
                float* sums, Index stride) {
  const Index item = Index(blockIdx.x) * kRowWarps + threadIdx.x / kWarp;
  const Index number = item / slices;
  if (number >= segments.count()) return;
  const uint2 range = segments[number];
  const LaneColumn at = lane_column<kWidth>(item % slices, delta.cols);
  Entries<std::int32_t> entries(lists.example, lists.value, range.y);
  entries.start(range.x);
  Lane<kWidth> sum = {};
  entries.template add_rows<kWidth, 8>(range.x, range.y, delta.data + at.column,
                                       std::uint32_t(delta.stride), sum);
  if (at.active) store_lane<kWidth>(sums + Index(range.x / kSegment) * stride + at.column, sum);
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
void launch_sum_segment(const Stream& stream, const TransposedBatch& xt, SegmentList segments,
                        MatrixView<const T> delta, Index windows, float* sums, Index stride) {
  const Index slices = slices_of<kWidth>(delta.cols);
  const auto blocks = unsigned((windows * slices + kRowWarps - 1) / kRowWarps);
  sum_segment<kWidth, T><<<blocks, kRowWarps * kWarp, 0, stream.stream>>>(
      lists_of(xt), segments, delta, slices, sums, stride);
  check_launch("sum_segment");
}

}  // namespace

Index segment_words(Index entries) {
  return 2 + 2 * (entries / kSegment);
}

void list_segments(const Stream& stream, const UnitLists& lists, std::uint32_t* list) {
  check(cudaMemsetAsync(list, 0, sizeof(std::uint32_t), stream.stream), "cudaMemsetAsync");
  if (lists.touched == 0) return;
  const unsigned blocks =
      blocks_for(lists.touched, kListThreads, 16 * Index(stream.multiprocessors));
  write_segments<<<blocks, kListThreads, 0, stream.stream>>>(lists, list,
                                                             reinterpret_cast<uint2*>(list) + 1);
  check_launch("write_segments");
}

SegmentSums sum_segments(const Stream& stream, SparseWorkspace& workspace,
                         const TransposedBatch& xt, const DenseOperand& delta) {
  const Index limit = xt.example.size();
  if (limit <= kSegment) return {};
  const Index windows = (limit + kSegment - 1) / kSegment;
  const std::uint32_t* list = xt.segments.data();
  if (xt.segments.size() == 0) {
    std::uint32_t* own = workspace.segments.reserve(segment_words(limit));
    list_segments(stream, lists_of(xt), own);
    list = own;
  }
  const Index stride = (delta.cols() + 3) / 4 * 4;
  float* sums = workspace.partial.reserve(windows * stride);
  with_rows_of(delta, [&](auto rows) {
    if (in_fours(rows))
      launch_sum_segment<4>(stream, xt, {list}, rows, windows, sums, stride);
    else
      launch_sum_segment<1>(stream, xt, {list}, rows, windows, sums, stride);
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
