// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/sparse/row_lanes.cuh"
#include "kernels/cuda/sparse/sparse_parts.h"

/// The rows of a transposed batch, one warp for each unit and run of columns.
///
/// A unit's gradient is a sum of rows of delta in order of example, in segments of 64 entries: the
/// first segment is summed up from zero, each of the others for itself, and their sums are added to
/// the first in order. Its shape depends on the number of the unit's entries alone. Units of up to
/// 64 entries have the plain order of the CPU's sums, and its bits. The segments after the first
/// are summed by a kernel of their own, so that a unit that all examples hold keeps many warps
/// busy. The segment whose first entry is number e lies in row e / 64 of the sums: there is at most
/// one, because the next segment of the unit is 64 entries further and a unit's first is not
/// stored.
namespace norn::cuda {

inline constexpr std::uint32_t kSegment = 64;

/// A unit of the batch and its entries. 32 bits are enough for what a transposition can hold, and
/// leave registers to the rows.
struct UnitRange {
  Column row = 0;
  std::uint32_t begin = 0, end = 0;
  __device__ bool occurs() const { return begin < end; }
};

__device__ inline UnitRange unit_range(const UnitLists& lists, Index t) {
  if (t >= lists.touched) return {};
  return {lists.unit[t], std::uint32_t(lists.begin[t]), std::uint32_t(lists.begin[t + 1])};
}

/// The first segment of what is left of a unit.
__device__ inline ListedRows<std::int32_t> segment(const UnitLists& lists, const UnitRange& unit) {
  const std::uint32_t count = unit.end - unit.begin;
  return {lists.example + unit.begin, lists.value ? lists.value + unit.begin : nullptr,
          Index(count < kSegment ? count : kSegment)};
}

/// Calls body with the deltas that a GPU reads: the bf16 ones where they are given.
template <class Body>
void with_rows_of(const DenseOperand& delta, const Body& body) {
  if (delta.bf16.data != nullptr)
    body(delta.bf16);
  else
    body(delta.values);
}

/// Units and slices of columns in turn, for the warps of a grid.
struct UnitTurn {
  std::uint32_t unit, slice;
  std::uint32_t unit_stride, slice_stride, slices;

  __device__ explicit UnitTurn(Index slice_count) : slices(std::uint32_t(slice_count)) {
    const std::uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
    const std::uint32_t warps = gridDim.x * blockDim.x / kWarp;
    unit = warp / slices;
    slice = warp % slices;
    unit_stride = warps / slices;
    slice_stride = warps % slices;
  }
  __device__ void advance() {
    unit += unit_stride;
    slice += slice_stride;
    if (slice >= slices) {
      slice -= slices;
      ++unit;
    }
  }
};

/// Calls for every unit that occurs and every slice of columns
///   sink.load(row, column)                         the row as it is before the sum,
///   sink.progress(row)                             how far the row has come,
///   sink.store(state, sum, row, progress, at)      with the sum of the unit's rows of delta.
/// What a unit needs is prefetched two turns before: three loads that wait for each other would
/// cost more than the sum.
template <int kWidth, class Sink, typename T>
__global__ void __launch_bounds__(kRowWarps* kWarp)
    sum_units(UnitLists lists, MatrixView<const T> delta, SegmentSums segments, Index slices,
              Sink sink) {
  constexpr int kInFlight = 4;  // most units have few entries
  UnitTurn turn(slices);
  UnitRange unit = unit_range(lists, turn.unit);
  FetchedRows<std::int32_t> fetched, next_fetched;
  fetched.fetch(segment(lists, unit), 0);
  std::uint32_t slice = turn.slice;
  turn.advance();
  UnitRange next = unit_range(lists, turn.unit);
  while (unit.occurs()) {
    next_fetched.fetch(segment(lists, next), 0);
    const std::uint32_t next_slice = turn.slice;
    turn.advance();
    const UnitRange after = unit_range(lists, turn.unit);

    const LaneColumn at = lane_column<kWidth>(slice, delta.cols);
    auto state = sink.load(unit.row, at.column);
    const auto progress = sink.progress(unit.row);
    Lane<kWidth> sum = {};
    add_rows<kWidth, kInFlight>(segment(lists, unit), fetched, delta.data + at.column, delta.stride,
                                sum);
    const Index more = Index(unit.end - unit.begin - 1) / kSegment;
    if (more > 0)
      add_consecutive_rows<kWidth, kInFlight>(
          segments.sum + (Index(unit.begin) / kSegment + 1) * segments.stride + at.column,
          segments.stride, more, sum);
    sink.store(state, sum, unit.row, progress, at);

    unit = next;
    fetched = next_fetched;
    slice = next_slice;
    next = after;
  }
}

/// Launches sum_units: blocks for two rounds of the multiprocessors.
template <int kWidth, class Sink, typename T>
void launch_sum_units(const Stream& stream, const TransposedBatch& xt, MatrixView<const T> delta,
                      SegmentSums segments, const Sink& sink) {
  const Index slices = slices_of<kWidth>(delta.cols);
  int resident = 1;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, sum_units<kWidth, Sink, T>,
                                                      kRowWarps * kWarp, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const unsigned blocks = blocks_for(xt.touched * slices, kRowWarps,
                                     2 * Index(resident) * Index(stream.multiprocessors));
  sum_units<kWidth, Sink, T><<<blocks, kRowWarps * kWarp, 0, stream.stream>>>(
      lists_of(xt), delta, segments, slices, sink);
  check_launch("sum_units");
}

}  // namespace norn::cuda
