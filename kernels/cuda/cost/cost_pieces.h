// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/elements/access.h"
#include "kernels/cuda/elements/search.h"
#include "norn/kernels/cost.h"

/// The frame of the cost kernels: a block of an output layer is judged in pieces of one row and
/// kChunk columns, a thread block each. A piece reads its pre-activations once, judges all of them
/// as absent, and then puts the stored targets right.
///
/// What is judged comes as a Judge, a value with
///   kWrites         whether z becomes the delta,
///   kJudgesAbsent   whether absent entries count at all,
///   Row, row(target, r)             what all units of row r share; Row::cost_factor weighs its
///   sum, absent(row, z), dense(row, z, t)   cost and delta in float, stored(row, z, value, i) the
///   same, cost in double, of a row's stored entry i.
namespace norn::cuda {

inline constexpr int kPieceThreads = 256;
inline constexpr int kPieceGroups = 4;  ///< of four columns, a thread
inline constexpr int kChunk = kPieceThreads * kPieceGroups * 4;

/// Cost and delta of a stored entry.
struct StoredCost {
  double cost;
  float delta;
};

struct PieceWork {
  TargetView target;
  Index first_unit;
  MatrixView<float> z;
  MatrixView<Bfloat16> rounded;
  double* partial;  ///< [rows x chunks] the pieces' costs; null when nobody asks
  unsigned chunks;
  int z_width;  ///< of an access, and of the others
  int rounded_width;
  int dense_width;
};

inline Index chunks_of(Index cols) {
  return (cols + kChunk - 1) / kChunk;
}

/// The sum over the block's threads, in thread 0: a tree of fixed shape.
template <int kThreads>
__device__ double block_sum(double x) {
  __shared__ double warp_sum[kThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(kWholeWarp, x, step);
  if (threadIdx.x % 32 == 0) warp_sum[threadIdx.x / 32] = x;
  __syncthreads();
  double total = 0;
  if (threadIdx.x == 0)
    for (int w = 0; w < kThreads / 32; ++w) total += warp_sum[w];
  return total;
}

/// One piece, seen by one of its threads.
template <typename Judge>
struct Piece {
  const Judge& judge;
  const PieceWork& work;
  Index r;
  int count;        ///< columns
  Index first;      ///< column of the block
  float* z;         ///< where the piece begins
  Bfloat16* round;  ///< its rounded deltas, or null

  __device__ Piece(const Judge& judge_, const PieceWork& work_) : judge(judge_), work(work_) {
    const unsigned row = blockIdx.x / work.chunks;
    r = row;
    first = Index(blockIdx.x - row * work.chunks) * kChunk;
    count = int(work.z.cols - first < kChunk ? work.z.cols - first : kChunk);
    z = work.z.row(r) + first;
    round = work.rounded.data == nullptr ? nullptr : work.rounded.row(r) + first;
  }
  __device__ static int column(int group) { return (group * kPieceThreads + int(threadIdx.x)) * 4; }

  __device__ void load(float (&x)[kPieceGroups][4]) const {
#pragma unroll
    for (int g = 0; g < kPieceGroups; ++g) load_four(z, column(g), count, work.z_width, 0.0f, x[g]);
  }
  __device__ void write(int at, const float (&delta)[4]) const {
    if constexpr (Judge::kWrites) {
      store_four(delta, at, count, work.z_width, z);
      if (round != nullptr) store_four_rounded(delta, at, count, work.rounded_width, round);
    }
  }

  /// Judges all columns as absent; returns this thread's cost.
  __device__ double judge_absent(const typename Judge::Row& row,
                                 const float (&x)[kPieceGroups][4]) const {
    double cost = 0;
#pragma unroll
    for (int g = 0; g < kPieceGroups; ++g) {
      const int at = column(g);
      if (at >= count) break;
      float delta[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const ElementCost<float> e = judge.absent(row, x[g][j]);
        delta[j] = e.delta;
        if (at + j < count) cost += double(e.cost);
      }
      write(at, delta);
    }
    return cost;
  }

  /// Judges all columns by dense targets; those beyond the data have target 0.
  __device__ double judge_dense(const typename Judge::Row& row,
                                const float (&x)[kPieceGroups][4]) const {
    const MatrixView<const float>& dense = work.target.dense;
    const Index before = work.first_unit + first;  // units before this piece
    const int given = int(max(Index(0), min(Index(count), dense.cols - before)));
    const float* targets = given > 0 ? dense.row(r) + before : nullptr;
    double cost = 0;
#pragma unroll
    for (int g = 0; g < kPieceGroups; ++g) {
      const int at = column(g);
      if (at >= count) break;
      float t[4];
      load_four(targets, at, given, work.dense_width, 0.0f, t);
      float delta[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const ElementCost<float> e =
            at + j < given ? judge.dense(row, x[g][j], t[j]) : judge.absent(row, x[g][j]);
        delta[j] = e.delta;
        if (at + j < count) cost += double(e.cost);
      }
      write(at, delta);
    }
    return cost;
  }

  /// Keeps z for the stored entries.
  __device__ void keep(const float (&x)[kPieceGroups][4], float* before) const {
#pragma unroll
    for (int g = 0; g < kPieceGroups; ++g)
      *reinterpret_cast<float4*>(before + column(g)) =
          make_float4(x[g][0], x[g][1], x[g][2], x[g][3]);
  }

  __device__ void clear() const {
    for (int g = 0; g < kPieceGroups; ++g)
      if (column(g) < count) write(column(g), {0.0f, 0.0f, 0.0f, 0.0f});
  }

  /// Puts the stored entries [begin, begin + stored) right, given the columns of z; returns what
  /// this adds to the cost.
  __device__ double judge_stored(const typename Judge::Row& row, RowOffset begin, int stored,
                                 bool counts_absent, const float* before) const {
    const CsrView& x = work.target.sparse;
    const float* value = x.value == nullptr ? nullptr : x.value + begin;
    double cost = 0;
    for (int i = int(threadIdx.x); i < stored; i += kPieceThreads) {
      const int c = int(Index(x.column[begin + i]) - work.first_unit - first);
      const StoredCost e = judge.stored(row, before[c], value, i);
      cost += e.cost;
      if (counts_absent) cost -= double(judge.absent(row, before[c]).cost);
      if constexpr (Judge::kWrites) {
        z[c] = e.delta;
        if (round != nullptr) round[c] = Bfloat16::rounded(e.delta);
      }
    }
    return cost;
  }
};

template <typename Judge>
__global__ void __launch_bounds__(kPieceThreads)
    judge_dense_pieces(const __grid_constant__ Judge judge,
                       const __grid_constant__ PieceWork work) {
  __shared__ typename Judge::Row row;
  const Piece<Judge> piece(judge, work);
  float x[kPieceGroups][4];
  piece.load(x);
  if (threadIdx.x == 0) row = judge.row(work.target, piece.r);
  __syncthreads();
  const double cost = block_sum<kPieceThreads>(piece.judge_dense(row, x));
  if (threadIdx.x == 0 && work.partial != nullptr)
    work.partial[blockIdx.x] = row.cost_factor * cost;
}

template <typename Judge>
__global__ void __launch_bounds__(kPieceThreads)
    judge_sparse_pieces(const __grid_constant__ Judge judge,
                        const __grid_constant__ PieceWork work) {
  __shared__ typename Judge::Row row;
  __shared__ RowOffset bound[2];
  __shared__ alignas(16) float kept[Judge::kWrites ? kChunk : 4];
  const Piece<Judge> piece(judge, work);
  const bool counts_absent = Judge::kJudgesAbsent && !work.target.ignore_absent;
  float x[kPieceGroups][4];
  // On its way while the stored entries are looked up.
  if (counts_absent || Judge::kWrites) piece.load(x);
  const CsrView& sparse = work.target.sparse;
  const int warp = int(threadIdx.x) / 32;
  if (warp < 2) {
    const Index unit = work.first_unit + piece.first + (warp == 0 ? 0 : piece.count);
    bound[warp] = warp_lower_bound(sparse.column, sparse.row_begin[piece.r],
                                   sparse.row_begin[piece.r + 1], unit);
  } else if (threadIdx.x == 64) {
    row = judge.row(work.target, piece.r);
  }
  __syncthreads();
  const int stored = int(min(bound[1] - bound[0], RowOffset(kChunk)));
  if (Judge::kWrites && stored > 0) piece.keep(x, kept);
  double cost = 0;
  if (counts_absent)
    cost = piece.judge_absent(row, x);
  else
    piece.clear();
  if (stored > 0) {
    if (Judge::kWrites) __syncthreads();
    cost +=
        piece.judge_stored(row, bound[0], stored, counts_absent, Judge::kWrites ? kept : piece.z);
  }
  cost = block_sum<kPieceThreads>(cost);
  if (threadIdx.x == 0) work.partial[blockIdx.x] = row.cost_factor * cost;
}

inline PieceWork piece_work(const TargetView& target, Index first_unit, MatrixView<float> z,
                            MatrixView<Bfloat16> rounded, double* partial) {
  return {.target = target,
          .first_unit = first_unit,
          .z = z,
          .rounded = rounded,
          .partial = partial,
          .chunks = unsigned(chunks_of(z.cols)),
          .z_width = access_width(z),
          .rounded_width = access_width(rounded),
          .dense_width =
              target.dense.data == nullptr ? 1 : access_width(target.dense.columns(first_unit, 0))};
}

/// Judges a block by its targets; the pieces' costs come to stand in `partial`, row after row.
template <typename Judge>
void judge_pieces(const Stream& stream, const Judge& judge, const TargetView& target,
                  Index first_unit, MatrixView<float> z, MatrixView<Bfloat16> rounded,
                  double* partial) {
  if (z.empty()) return;
  const PieceWork work = piece_work(target, first_unit, z, rounded, partial);
  const unsigned blocks = unsigned(z.rows * work.chunks);
  if (target.is_sparse)
    judge_sparse_pieces<<<blocks, kPieceThreads, 0, stream.stream>>>(judge, work);
  else
    judge_dense_pieces<<<blocks, kPieceThreads, 0, stream.stream>>>(judge, work);
  check_launch("judge_pieces");
}

/// Judges every element as absent, for the sake of what is written in its place.
template <typename Judge>
void judge_without_targets(const Stream& stream, const Judge& judge, MatrixView<float> z) {
  if (z.empty()) return;
  const PieceWork work = piece_work({.is_sparse = false}, 0, z, {}, nullptr);
  judge_dense_pieces<<<unsigned(z.rows * work.chunks), kPieceThreads, 0, stream.stream>>>(judge,
                                                                                          work);
  check_launch("judge_dense_pieces");
}

}  // namespace norn::cuda
