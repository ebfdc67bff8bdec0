// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/sparse/row_sums.cuh"
#include "kernels/cuda/sparse/sparse_units.cuh"

/// The rows of a transposed batch with many entries for each unit, slice after slice of the
/// columns: what the gathers of sum_units bring from the second cache, a multiprocessor finds here
/// in its own.
namespace norn::cuda {

/// Whether this is faster than sum_units: below, the rows of w are what a batch waits for, and want
/// to be read as a whole.
inline bool has_many_entries(Index entries, Index units) {
  return entries >= 2 * units;
}

/// What the blocks of sum_slices have taken on: of each slice, the first unit that no warp has. The
/// blocks of a multiprocessor stay with one slice while there is work in it, so that its columns of
/// delta come from the nearest cache.
struct SliceQueue {
  std::uint32_t* taken;  // [slices], zero at the start
  std::uint32_t slices;
  std::uint32_t part;  // units that are taken at a time

  /// A slice that has work left, `slice` or the next one after it; `slices` when there is none. For
  /// all threads of the block.
  __device__ std::uint32_t with_work(std::uint32_t slice, std::uint32_t units) const {
    __shared__ std::uint32_t chosen;
    __syncthreads();
    if (threadIdx.x < kWarp) {
      std::uint32_t found = slices;
      for (std::uint32_t s = 0; s < slices && found == slices; s += kWarp) {
        const std::uint32_t ahead = s + threadIdx.x;
        const std::uint32_t looked_at = (slice + ahead) % slices;
        const bool open =
            ahead < slices && *static_cast<volatile std::uint32_t*>(taken + looked_at) < units;
        const unsigned any = __ballot_sync(kAllLanes, open);
        if (any != 0) found = __shfl_sync(kAllLanes, looked_at, __ffs(int(any)) - 1);
      }
      if (threadIdx.x == 0) chosen = found;
    }
    __syncthreads();
    return chosen;
  }
  /// The first of the `part` units that the warp takes, in lane 0.
  __device__ std::uint32_t take(std::uint32_t slice) const {
    return threadIdx.x % kWarp == 0 ? atomicAdd(taken + slice, part) : 0;
  }
};

/// Up to 30 units in a row, one a lane: begin of lane k + 1 is where unit k ends.
struct UnitPart {
  Column row = 0;
  std::uint32_t begin = 0;

  __device__ UnitPart(const UnitLists& lists, std::uint32_t first, std::uint32_t count) {
    const std::uint32_t lane = threadIdx.x % kWarp;
    const Index t = Index(first) + lane;
    if (lane <= count) begin = std::uint32_t(lists.begin[t < lists.touched ? t : lists.touched]);
    if (lane < count && t < lists.touched) row = lists.unit[t];
    if (row == TransposedBatch::no_unit) row = 0;
  }
};

/// The units of a part, one after the other; the state of the next is on its way meanwhile.
template <int kWidth, class Sink, typename T>
__device__ void sum_part(const UnitPart& part, std::uint32_t count, Entries<std::int32_t>& entries,
                         MatrixView<const T> delta, SegmentSums segments, LaneColumn at,
                         const Sink& sink) {
  constexpr int kInFlight = 4;  // most units have few entries
  std::uint32_t begin = __shfl_sync(kAllLanes, part.begin, 0);
  std::uint32_t end = __shfl_sync(kAllLanes, part.begin, 1);
  if (begin >= end) return;
  entries.start(begin);
  const auto progress = sink.progress(part.row);
  Column row = __shfl_sync(kAllLanes, part.row, 0);
  typename Sink::State next = sink.load(row, at.column);
#pragma unroll 1
  for (std::uint32_t u = 0; u < count && begin < end; ++u) {
    typename Sink::State state = next;
    const Column here = row;
    row = __shfl_sync(kAllLanes, part.row, int(u + 1));
    const std::uint32_t after = __shfl_sync(kAllLanes, part.begin, int(u + 2));
    if (u + 1 < count && end < after) next = sink.load(row, at.column);
    Lane<kWidth> sum = {};
    entries.template add_rows<kWidth, kInFlight>(
        begin, end - begin > kSegment ? begin + kSegment : end, delta.data + at.column,
        std::uint32_t(delta.stride), sum);
    const Index more = Index(end - begin - 1) / kSegment;
    if (more > 0)
      add_consecutive_rows<kWidth, kInFlight>(
          segments.sum + (Index(begin) / kSegment + 1) * segments.stride + at.column,
          segments.stride, more, sum);
    sink.store(state, sum, here, __shfl_sync(kAllLanes, progress, int(u)), at);
    begin = end;
    end = after;
  }
}

/// Does what sum_units does. Which warp does it has no say in the result.
template <int kWidth, int kThreads, class Sink, typename T>
__global__ void __launch_bounds__(kThreads, 1)
    sum_slices(UnitLists lists, MatrixView<const T> delta, SegmentSums segments, SliceQueue queue,
               Sink sink) {
  const auto units = std::uint32_t(lists.touched);
  Entries<std::int32_t> entries(lists.example, lists.value,
                                std::uint32_t(lists.begin[lists.touched]));
  std::uint32_t slice = blockIdx.x % queue.slices;
  while ((slice = queue.with_work(slice, units)) < queue.slices) {
    const LaneColumn at = lane_column<kWidth>(slice, delta.cols);
    std::uint32_t first = __shfl_sync(kAllLanes, queue.take(slice), 0);
    std::uint32_t ticket = queue.take(slice);
    UnitPart next(lists, first, queue.part);
    while (first < units) {
      const UnitPart part = next;
      first = __shfl_sync(kAllLanes, ticket, 0);
      ticket = queue.take(slice);
      next = UnitPart(lists, first, queue.part);
      sum_part<kWidth>(part, queue.part, entries, delta, segments, at, sink);
    }
  }
}

/// Launches sum_slices, a block for each multiprocessor.
template <int kWidth, int kThreads, class Sink, typename T>
void launch_sum_slices(const Stream& stream, SparseWorkspace& workspace, const TransposedBatch& xt,
                       MatrixView<const T> delta, SegmentSums segments, const Sink& sink) {
  constexpr Index kMostUnits = 8;
  const Index slices = slices_of<kWidth>(delta.cols);
  const Index warps = Index(stream.multiprocessors) * (kThreads / kWarp);
  const Index part = std::clamp<Index>(xt.touched * slices / (4 * warps), 1, kMostUnits);
  std::uint32_t* taken = workspace.taken.reserve(slices);
  check(cudaMemsetAsync(taken, 0, std::size_t(slices) * sizeof(std::uint32_t), stream.stream),
        "cudaMemsetAsync");
  sum_slices<kWidth, kThreads, Sink, T>
      <<<unsigned(stream.multiprocessors), kThreads, 0, stream.stream>>>(
          lists_of(xt), delta, segments,
          SliceQueue{taken, std::uint32_t(slices), std::uint32_t(part)}, sink);
  check_launch("sum_slices");
}

}  // namespace norn::cuda
