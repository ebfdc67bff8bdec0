// SPDX-License-Identifier: Apache-2.0
// Rows of V changed by the stored targets of a batch. Sums over a unit's entries run in the order
// of the list, long ones in pieces of kPiece.
#include "kernels/cuda/factored/entry_lists.cuh"
#include "kernels/cuda/factored/factored_parts.h"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr Index kPiece = 64;  // entries of a piece; sums of longer units are made of these

Index padded(Index width) {
  return (width + 3) / 4 * 4;
}

/// Sums of units of more than kPiece entries, piece by piece: piece s of a unit whose entries begin
/// at b stands at b / kSlot + s. No two stand at one place, for such a unit has room for them all.
constexpr Index kSlot = kPiece / 2;
Index slots_of(Index entries) {
  return entries / kSlot + 1;
}

__global__ void round_rows(MatrixView<const double> k, MatrixView<float> rounded) {
  const Index r = blockIdx.x;
  for (Index c = threadIdx.x; c < k.cols; c += kThreads) rounded(r, c) = float(k(r, c));
}

/// The sum of r k(e) over entries, of one column.
__device__ float sum_entries(const Lists& lists, const double* r, MatrixView<const float> k,
                             Index first, Index end, Index column) {
  float sum = 0.0f;
#pragma unroll 8
  for (Index i = first; i < end; ++i) sum = fmaf(float(r[i]), k(lists.example[i], column), sum);
  return sum;
}

__global__ void __launch_bounds__(kThreads)
    sum_pieces(Lists lists, const double* r, MatrixView<const float> k, MatrixView<float> pieces) {
  const Index slot = blockIdx.x;
  // The last unit whose pieces begin here or before.
  const Index t = first_not_below(lists.begin, lists.touched, (slot + 1) * kSlot) - 1;
  if (t < 0) return;
  const Index begin = lists.begin[t], end = lists.begin[t + 1];
  const Index first = begin + (slot - begin / kSlot) * kPiece;
  if (end - begin <= kPiece || first >= end) return;
  const Index last = first + kPiece < end ? first + kPiece : end;
  for (Index c = threadIdx.x; c < k.cols; c += kThreads)
    pieces(slot, c) = sum_entries(lists, r, k, first, last, c);
}

constexpr int kColumns = 8;  // of a lane at a time

/// A warp a unit.
__global__ void __launch_bounds__(kThreads)
    update_kernel(Lists lists, const double* r, float scale, MatrixView<const float> k,
                  MatrixView<const float> pieces, FactorView<float> v) {
  const Index t = blockIdx.x * Index(kThreads / kWarp) + threadIdx.x / kWarp;
  if (t >= lists.touched) return;
  const Index begin = lists.begin[t], end = lists.begin[t + 1];
  if (begin == end) return;
  const Index unit = lists.unit[t], d = v.rows.cols;
  const bool is_long = end - begin > kPiece;
  for (Index c0 = threadIdx.x % kWarp; c0 <= d; c0 += kWarp * kColumns) {
    float sum[kColumns] = {};
    const Index count = is_long ? (end - begin + kPiece - 1) / kPiece : end - begin;
    for (Index i = 0; i < count; ++i) {
      const float* row = is_long ? pieces.row(begin / kSlot + i) : k.row(lists.example[begin + i]);
      const float factor = is_long ? 1.0f : float(r[begin + i]);
#pragma unroll
      for (int q = 0; q < kColumns; ++q)
        if (c0 + q * kWarp <= d) sum[q] = fmaf(factor, row[c0 + q * kWarp], sum[q]);
    }
#pragma unroll
    for (int q = 0; q < kColumns; ++q) {
      const Index c = c0 + q * kWarp;
      if (c > d) break;
      float* to = c < d ? v.rows.row(unit) + c : v.last.data + unit;
      *to = fmaf(-scale, sum[q], *to);
    }
  }
}

}  // namespace

Index update_floats(const TargetLists& lists, Index width) {
  return (lists.examples + slots_of(lists.entries)) * padded(width);
}

void update_touched(const Stream& stream, const TargetLists& lists, const double* r, double scale,
                    MatrixView<const double> k, const FactorView<float>& v, float* workspace) {
  if (lists.touched == 0 || k.rows == 0) return;
  const Index stride = padded(k.cols), slots = slots_of(lists.entries);
  const MatrixView<float> rounded{workspace, k.rows, k.cols, stride};
  const MatrixView<float> pieces{workspace + k.rows * stride, slots, k.cols, stride};
  const Lists all = lists_of(lists);
  round_rows<<<unsigned(k.rows), kThreads, 0, stream.stream>>>(k, rounded);
  check_launch("round_rows");
  if (lists.entries > kPiece) {
    sum_pieces<<<unsigned(slots), kThreads, 0, stream.stream>>>(all, r, rounded, pieces);
    check_launch("sum_pieces");
  }
  constexpr Index kUnits = kThreads / kWarp;
  update_kernel<<<unsigned((lists.touched + kUnits - 1) / kUnits), kThreads, 0, stream.stream>>>(
      all, r, float(scale), rounded, pieces, v);
  check_launch("update rows of stored targets");
}

}  // namespace norn::cuda
