// SPDX-License-Identifier: Apache-2.0
// Sums down the columns of matrices in float64, in an order that the number of rows alone fixes: a
// rank that holds some of the columns gets the same bits as one that holds all.
#pragma once

#include "kernels/cuda/elements/elements.cuh"

#include <algorithm>

namespace norn::cuda {

inline constexpr int kColumnThreads = 8;    // of a block, side by side
inline constexpr int kTileRowLanes = 64;    // lane l sums rows l, l + 64, ... of the slice
inline constexpr Index kLeastSlice = 1024;  // rows
inline constexpr Index kMaximumSlices = 256;

/// The columns of a thread: as many as it reads in one access.
template <typename Term>
constexpr int columns_of() {
  if constexpr (requires { Term::kColumns; })
    return Term::kColumns;
  else
    return 4;
}

/// Rows that a thread reads at a time.
template <typename Term>
constexpr int rows_in_flight() {
  if constexpr (requires { Term::kRows; })
    return Term::kRows;
  else
    return 4;
}

/// One matrix of those that a kernel sums up. Term::add<kPacked>(r, c, cols, sum) adds the terms of
/// elements [c, c + columns_of<Term>()) of row r; elements beyond `cols` are not read.
/// finish(c, totals) takes them.
template <typename Term, typename Finish>
struct ColumnSums {
  Term term;
  Finish finish;
  Index rows;
  Index cols;
  bool packed;                ///< whether a thread's columns may be read at once
  Index slice = 0;            ///< rows that a block sums
  Index slices = 0;           ///< of all rows
  double* partial = nullptr;  ///< [kSums x slices x cols], with more than one slice
};
template <typename Term, typename Finish, int kMost>
struct ColumnSumsList {
  ColumnSums<Term, Finish> of[kMost];
};

/// Blocks: tiles of columns x slices x matrices.
template <bool kPacked, typename Term, typename Finish, int kMost>
__global__ void __launch_bounds__(kColumnThreads* kTileRowLanes, 2)
    column_sums_kernel(const ColumnSumsList<Term, Finish, kMost> list) {
  constexpr int kSums = Term::kSums;
  constexpr int kOwn = columns_of<Term>();
  constexpr int kTile = kOwn * kColumnThreads;
  constexpr int kWarps = kTileRowLanes / 4;  // of four row lanes each
  __shared__ double part[kSums][kWarps][kTile];
  const ColumnSums<Term, Finish>& task = list.of[blockIdx.z];
  const Index cols = task.cols;
  if (blockIdx.y >= task.slices || Index(blockIdx.x) * kTile >= cols) return;
  const Index c = Index(blockIdx.x) * kTile + Index(threadIdx.x) * kOwn;
  const Index begin = Index(blockIdx.y) * task.slice;
  const Index end = begin + task.slice < task.rows ? begin + task.slice : task.rows;
  double sum[kOwn][kSums] = {};
  const auto add_rows = [&](Index last) {
    constexpr int kRows = kPacked ? rows_in_flight<Term>() : 4;
#pragma unroll kRows
    for (Index r = begin + threadIdx.y; r < end; r += kTileRowLanes)
      task.term.template add<kPacked>(r, c, last, sum);
  };
  // Reads wait for each other where it is asked each time whether all columns are there.
  if (c + kOwn <= cols)
    add_rows(c + kOwn);
  else if (c < cols)
    add_rows(cols);
  const int thread = int(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int k = 0; k < kSums; ++k)
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      double x = sum[i][k];
      x += __shfl_xor_sync(0xFFFFFFFFu, x, 8);
      x += __shfl_xor_sync(0xFFFFFFFFu, x, 16);
      if (thread % 32 < 8) part[k][thread / 32][kOwn * threadIdx.x + unsigned(i)] = x;
    }
  __syncthreads();
  const Index column = Index(blockIdx.x) * kTile + thread;
  if (thread >= kTile || column >= cols) return;
  double total[kSums];
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    total[k] = part[k][0][thread];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) total[k] += part[k][warp][thread];
  }
  if (task.slices == 1) {
    task.finish(column, total);
    return;
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k)
    task.partial[(Index(k) * task.slices + blockIdx.y) * cols + column] = total[k];
}

/// from[0] + from[step] + ..., in order; there are hundreds, and each read takes as long as many.
__device__ inline double add_slices(const double* from, int slices, Index step) {
  constexpr int kInFlight = 32;
  double sum = 0;
  for (int first = 0; first < slices; first += kInFlight) {
    double slice[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (first + i < slices) slice[i] = from[(first + i) * step];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (first + i < slices) sum += slice[i];
  }
  return sum;
}

/// Adds the slices' sums in order. Blocks: columns x matrices.
template <typename Term, typename Finish, int kMost>
__global__ void __launch_bounds__(kElementThreads)
    finish_columns_kernel(const ColumnSumsList<Term, Finish, kMost> list) {
  const ColumnSums<Term, Finish>& task = list.of[blockIdx.y];
  const Index c = Index(blockIdx.x) * kElementThreads + threadIdx.x;
  if (c >= task.cols || task.slices == 1) return;
  double total[Term::kSums];
#pragma unroll
  for (int k = 0; k < Term::kSums; ++k)
    total[k] =
        add_slices(task.partial + k * task.slices * task.cols + c, int(task.slices), task.cols);
  task.finish(c, total);
}

/// All matrices of a list, of which the first `count` are given: `slice` to `partial` are filled in
/// here.
template <typename Term, typename Finish, int kMost>
void sum_over_columns(const Stream& stream, Workspace<double>& workspace, const char* name,
                      ColumnSumsList<Term, Finish, kMost>& list, int count) {
  Index cols = 0, slices = 1, partials = 0;
  bool packed = true;
  for (int i = 0; i < count; ++i) {
    ColumnSums<Term, Finish>& task = list.of[i];
    task.slice = std::max(kLeastSlice, (task.rows + kMaximumSlices - 1) / kMaximumSlices);
    task.slices = std::max<Index>(1, (task.rows + task.slice - 1) / task.slice);
    cols = std::max(cols, task.cols);
    slices = std::max(slices, task.slices);
    if (task.slices > 1) partials += Term::kSums * task.slices * task.cols;
    packed = packed && task.packed;
  }
  if (cols == 0) return;
  double* partial = partials == 0 ? nullptr : workspace.reserve(partials);
  for (int i = 0; i < count; ++i) {
    ColumnSums<Term, Finish>& task = list.of[i];
    if (task.slices == 1) continue;
    task.partial = partial;
    partial += Term::kSums * task.slices * task.cols;
  }
  constexpr Index kTile = columns_of<Term>() * kColumnThreads;
  const dim3 grid(unsigned((cols + kTile - 1) / kTile), unsigned(slices), unsigned(count));
  const dim3 block(kColumnThreads, kTileRowLanes);
  if (packed)
    column_sums_kernel<true><<<grid, block, 0, stream.stream>>>(list);
  else
    column_sums_kernel<false><<<grid, block, 0, stream.stream>>>(list);
  check_launch(name);
  if (slices == 1) return;
  const dim3 blocks(unsigned((cols + kElementThreads - 1) / kElementThreads), unsigned(count));
  finish_columns_kernel<<<blocks, kElementThreads, 0, stream.stream>>>(list);
  check_launch(name);
}

/// finish(c, {sums of the terms over the rows}) for every column.
template <typename Term, typename Finish>
void sum_over_columns(const Stream& stream, Workspace<double>& workspace, const char* name,
                      Index rows, Index cols, bool packed, const Term& term, const Finish& finish) {
  ColumnSumsList<Term, Finish, 1> list{{{term, finish, rows, cols, packed}}};
  sum_over_columns(stream, workspace, name, list, 1);
}

/// The sum of x.
struct ValueTerm {
  static constexpr int kSums = 1;
  MatrixView<const float> x;
  template <bool kPacked>
  __device__ void add(Index r, Index c, Index cols, double (&sum)[4][1]) const {
    const Pack<float, 4> four = load_four<kPacked>(x.row(r), c, cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i][0] += double(four.value[i]);
  }
};

/// The sums of x and of x * y.
struct ProductTerm {
  static constexpr int kSums = 2;
  MatrixView<const float> x;
  MatrixView<const float> y;
  template <bool kPacked>
  __device__ void add(Index r, Index c, Index cols, double (&sum)[4][2]) const {
    const Pack<float, 4> a = load_four<kPacked>(x.row(r), c, cols);
    const Pack<float, 4> b = load_four<kPacked>(y.row(r), c, cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i][0] += double(a.value[i]);
      sum[i][1] += double(a.value[i]) * double(b.value[i]);
    }
  }
};

/// The sum of x in bf16.
struct Bf16Term {
  static constexpr int kSums = 1;
  static constexpr int kColumns = 8;
  static constexpr int kRows = 8;
  MatrixView<const Bfloat16> x;
  template <bool kPacked>
  __device__ void add(Index r, Index c, Index cols, double (&sum)[kColumns][1]) const {
    const Bfloat16* row = x.row(r);
    if (kPacked && c + kColumns <= cols) {
      const auto words = load<kColumns / 2>(reinterpret_cast<const std::uint32_t*>(row + c));
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        sum[2 * i][0] += double(__uint_as_float(words.value[i] << 16));
        sum[2 * i + 1][0] += double(__uint_as_float(words.value[i] & 0xFFFF0000u));
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kColumns; ++i)
      if (c + i < cols) sum[i][0] += double(row[c + i].value());
  }
};

/// The sum of x^2.
struct SquareTerm {
  static constexpr int kSums = 1;
  MatrixView<const float> x;
  template <bool kPacked>
  __device__ void add(Index r, Index c, Index cols, double (&sum)[4][1]) const {
    const Pack<float, 4> four = load_four<kPacked>(x.row(r), c, cols);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i][0] += double(four.value[i]) * double(four.value[i]);
  }
};

}  // namespace norn::cuda
