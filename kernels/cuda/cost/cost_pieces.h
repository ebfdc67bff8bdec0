// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cost.h"
#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/elements/access.h"
#include "kernels/cuda/elements/search.h"

/// The frame of the cost kernels: the loss of a block of an output layer is evaluated in pieces of
/// one row and kChunk columns, a thread block each. A piece reads its pre-activations once,
/// evaluates all of them as absent, and then puts the stored targets right.
///
/// The loss comes as a LossFunction, a value with
///   kWrites         whether z becomes the delta,
///   kEvaluatesAbsent   whether absent entries count at all,
///   Row, row(target, r)             what all units of row r share; Row::cost_factor weighs its
///   sum, absent(row, z), dense(row, z, t)   cost and delta in float, stored(row, z, target) the
///   same, cost in double, of a stored entry.
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
  MatrixView<Bfloat16> bf16;
  double* partial;  ///< [rows x chunks] the pieces' costs; null when nobody asks
  unsigned chunks;
  int z_width;  ///< of an access, and of the others
  int bf16_width;
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
template <typename LossFunction>
struct Piece {
  const LossFunction& loss_function;
  const PieceWork& work;
  Index r;
  int count;        ///< columns
  Index first;      ///< column of the block
  float* z;         ///< where the piece begins
  Bfloat16* round;  ///< its bf16 deltas, or null

  __device__ Piece(const LossFunction& loss_function_, const PieceWork& work_)
      : loss_function(loss_function_), work(work_) {
    const unsigned row = blockIdx.x / work.chunks;
    r = row;
    first = Index(blockIdx.x - row * work.chunks) * kChunk;
    count = int(work.z.cols - first < kChunk ? work.z.cols - first : kChunk);
    z = work.z.row(r) + first;
    round = work.bf16.data == nullptr ? nullptr : work.bf16.row(r) + first;
  }
  __device__ static int column(int group) { return (group * kPieceThreads + int(threadIdx.x)) * 4; }

  __device__ void load(float (&x)[kPieceGroups][4]) const {
#pragma unroll
    for (int g = 0; g < kPieceGroups; ++g) load_four(z, column(g), count, work.z_width, 0.0f, x[g]);
  }
  __device__ void write(int at, const float (&delta)[4]) const {
    if constexpr (LossFunction::kWrites) {
      store_four(delta, at, count, work.z_width, z);
      if (round != nullptr) store_four_bf16(delta, at, count, work.bf16_width, round);
    }
  }

  /// Judges all columns as absent; returns this thread's cost.
  __device__ double evaluate_absent(const typename LossFunction::Row& row,
                                    const float (&x)[kPieceGroups][4]) const {
    double cost = 0;
#pragma unroll
    for (int g = 0; g < kPieceGroups; ++g) {
      const int at = column(g);
      if (at >= count) break;
      float delta[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const ElementCost<float> e = loss_function.absent(row, x[g][j]);
        delta[j] = e.delta;
        if (at + j < count) cost += double(e.cost);
      }
      write(at, delta);
    }
    return cost;
  }

  /// Evaluates all columns with dense targets; those beyond the data have target 0.
  __device__ double evaluate_dense(const typename LossFunction::Row& row,
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
        const ElementCost<float> e = at + j < given ? loss_function.dense(row, x[g][j], t[j])
                                                    : loss_function.absent(row, x[g][j]);
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
  __device__ double evaluate_stored(const typename LossFunction::Row& row, RowOffset begin,
                                    int stored, bool counts_absent, const float* before) const {
    const CsrView& x = work.target.sparse;
    double cost = 0;
    for (int i = int(threadIdx.x); i < stored; i += kPieceThreads) {
      const int c = int(Index(x.column[begin + i]) - work.first_unit - first);
      const StoredCost e = loss_function.stored(row, before[c], work.target.stored(begin + i));
      cost += e.cost;
      if (counts_absent) cost -= double(loss_function.absent(row, before[c]).cost);
      if constexpr (LossFunction::kWrites) {
        z[c] = e.delta;
        if (round != nullptr) round[c] = Bfloat16::rounded(e.delta);
      }
    }
    return cost;
  }
};

template <typename LossFunction>
__global__ void __launch_bounds__(kPieceThreads)
    evaluate_dense_pieces(const __grid_constant__ LossFunction loss_function,
                          const __grid_constant__ PieceWork work) {
  __shared__ typename LossFunction::Row row;
  const Piece<LossFunction> piece(loss_function, work);
  float x[kPieceGroups][4];
  piece.load(x);
  if (threadIdx.x == 0) row = loss_function.row(work.target, piece.r);
  __syncthreads();
  const double cost = block_sum<kPieceThreads>(piece.evaluate_dense(row, x));
  if (threadIdx.x == 0 && work.partial != nullptr)
    work.partial[blockIdx.x] = row.cost_factor * cost;
}

template <typename LossFunction>
__global__ void __launch_bounds__(kPieceThreads)
    evaluate_sparse_pieces(const __grid_constant__ LossFunction loss_function,
                           const __grid_constant__ PieceWork work) {
  __shared__ typename LossFunction::Row row;
  __shared__ RowOffset bound[2];
  __shared__ alignas(16) float kept[LossFunction::kWrites ? kChunk : 4];
  const Piece<LossFunction> piece(loss_function, work);
  const bool counts_absent = LossFunction::kEvaluatesAbsent && !work.target.ignore_absent;
  float x[kPieceGroups][4];
  // On its way while the stored entries are looked up.
  if (counts_absent || LossFunction::kWrites) piece.load(x);
  const CsrView& sparse = work.target.sparse;
  const int warp = int(threadIdx.x) / 32;
  if (warp < 2) {
    const Index unit = work.first_unit + piece.first + (warp == 0 ? 0 : piece.count);
    bound[warp] = warp_lower_bound(sparse.column, sparse.row_begin[piece.r],
                                   sparse.row_begin[piece.r + 1], unit);
  } else if (threadIdx.x == 64) {
    row = loss_function.row(work.target, piece.r);
  }
  __syncthreads();
  const int stored = int(min(bound[1] - bound[0], RowOffset(kChunk)));
  if (LossFunction::kWrites && stored > 0) piece.keep(x, kept);
  double cost = 0;
  if (counts_absent)
    cost = piece.evaluate_absent(row, x);
  else
    piece.clear();
  if (stored > 0) {
    if (LossFunction::kWrites) __syncthreads();
    cost += piece.evaluate_stored(row, bound[0], stored, counts_absent,
                                  LossFunction::kWrites ? kept : piece.z);
  }
  cost = block_sum<kPieceThreads>(cost);
  if (threadIdx.x == 0) work.partial[blockIdx.x] = row.cost_factor * cost;
}

inline PieceWork piece_work(const TargetView& target, Index first_unit, MatrixView<float> z,
                            MatrixView<Bfloat16> bf16, double* partial) {
  return {.target = target,
          .first_unit = first_unit,
          .z = z,
          .bf16 = bf16,
          .partial = partial,
          .chunks = unsigned(chunks_of(z.cols)),
          .z_width = access_width(z),
          .bf16_width = access_width(bf16),
          .dense_width =
              target.dense.data == nullptr ? 1 : access_width(target.dense.columns(first_unit, 0))};
}

/// Evaluates a block with its targets; the pieces' costs come to stand in `partial`, row after row.
template <typename LossFunction>
void evaluate_pieces(const Stream& stream, const LossFunction& loss_function,
                     const TargetView& target, Index first_unit, MatrixView<float> z,
                     MatrixView<Bfloat16> bf16, double* partial) {
  if (z.empty()) return;
  const PieceWork work = piece_work(target, first_unit, z, bf16, partial);
  const unsigned blocks = unsigned(z.rows * work.chunks);
  if (target.is_sparse)
    evaluate_sparse_pieces<<<blocks, kPieceThreads, 0, stream.stream>>>(loss_function, work);
  else
    evaluate_dense_pieces<<<blocks, kPieceThreads, 0, stream.stream>>>(loss_function, work);
  check_launch("evaluate_pieces");
}

/// Evaluates every element as absent, for the sake of what is written in its place.
template <typename LossFunction>
void evaluate_without_targets(const Stream& stream, const LossFunction& loss_function,
                              MatrixView<float> z) {
  if (z.empty()) return;
  const PieceWork work = piece_work({.is_sparse = false}, 0, z, {}, nullptr);
  evaluate_dense_pieces<<<unsigned(z.rows * work.chunks), kPieceThreads, 0, stream.stream>>>(
      loss_function, work);
  check_launch("evaluate_dense_pieces");
}

}  // namespace norn::cuda
