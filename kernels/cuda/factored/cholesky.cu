// SPDX-License-Identifier: Apache-2.0
// Inverse factors of symmetric matrices, tile by tile: step j applies what is below the diagonal
// tile j to all that comes after it, to the matrix and to the inverse factor alike, in one kernel.
// The block that makes the next diagonal tile factorises that, too.
//
// With X the inverse factor of tile j, all there is to do is a(i, k) -= L(i) R(k):
//   L(i) = a(i, j) X',  R(k) = X y(k),  y(k) = a(k, j)' after tile j and rest(j, k) before it.
// Each block makes the L and R that it needs. Products are made by tensor cores.
#include "kernels/cuda/factored/factored_parts.h"
#include "kernels/cuda/factored/tile_factor.cuh"

namespace norn::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 2;  // of a multiprocessor
// Up to so many tiles a block makes one: a step is as long as its first block. With more tiles it
// makes 2 x 2 of them, as operands are then read and made half as often.
constexpr Index kSmall = 9;

/// Of a matrix. `rest`: the inverse factor's rows that are still changed, whole tiles of them,
/// columns in the order of fragments.
struct Factoring {
  MatrixView<double> a;
  double* rest;
  double* diagonal;  // inverse factors of the tiles j and j + 1
  double* least;
  int tiles;
};

struct Factorings {
  Factoring of[2];
  int count;
};

template <int kSpan>
struct alignas(16) BlockMemory {
  static constexpr int kWide = kSpan * kTile, kWidePitch = kWide + kPadding;
  double inverse[kTile * kPitch];
  double left[kWide * kPitch];
  double right[kTile * kWidePitch];
};

/// What a block makes: the tiles at these rows and columns of elements.
struct Place {
  enum class Of { matrix, rest, result };
  Of of;
  int row, column;
};

/// The column of element `at` of a fragment's row: a lane holds two neighbours in the fragment, but
/// four lanes read and write neighbours in memory.
__device__ int column_of(int at) {
  return at / 8 * 8 + at % 2 * 4 + at % 8 / 2;
}

__device__ unsigned shared_address(const double* p) {
  return unsigned(__cvta_generic_to_shared(p));
}

/// Zero where it is not `valid`.
__device__ void copy_one(double* to, const double* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 8 : 0)
               : "memory");
}

__device__ void copy_two(double* to, const double* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}

__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// The inverse factor of the diagonal tile `i` to where the next step finds it. Of warps 0 and 1.
/// Beyond the matrix the tile is taken for 1. Its upper triangle is read, but does not matter.
__device__ void factor_diagonal(const Factoring& f, int i, double* tile, double* rows) {
  const int lane = int(threadIdx.x) % kLanes, left = int(f.a.rows) - i * kTile;
  if (threadIdx.x >= kLanes)
#pragma unroll
    for (int c = 0; c < kTile; ++c) rows[lane * kPitch + c] = c == lane ? 1.0 : 0.0;
  double least = INFINITY;
  factor_from<0>(tile, left < kTile ? left : kTile, rows, f.diagonal + i % 2 * kTileSize, least);
  if (threadIdx.x == 0 && (i == 0 || !(least >= *f.least))) *f.least = least;
}

__global__ void __launch_bounds__(kThreads) begin_kernel(const __grid_constant__ Factorings all) {
  __shared__ alignas(16) double tile[kTile * kPitch], columns[kTile * kPitch];
  const Factoring f = blockIdx.x == 0 ? all.of[0] : all.of[1];
  const MatrixView<double> a = f.a;
  for (int at = int(threadIdx.x); at < kTileSize; at += kThreads) {
    const int r = at / kTile, c = at % kTile;
    tile[r * kPitch + c] = r < a.rows && c <= r ? a(r, c) : 0.0;
  }
  __syncthreads();
  if (threadIdx.x < 2 * kLanes) factor_diagonal(f, 0, tile, columns);
}

__host__ __device__ int groups(int tiles, int span) {
  return (tiles + span - 1) / span;
}

/// Blocks of a matrix in step j: the next diagonal tile's first, on which the next step waits.
__host__ __device__ int blocks_of_step(int tiles, int j, int span) {
  const int rows = groups(tiles - 1 - j, span);
  return rows * (rows + 1) / 2 + rows * groups(j + 1, span) + groups(tiles, span);
}

template <int kSpan>
__device__ Place place_of(int block, int tiles, int j) {
  constexpr int kWide = kSpan * kTile;
  const int rows = groups(tiles - 1 - j, kSpan), first = (j + 1) * kTile;
  const int of_matrix = rows * (rows + 1) / 2, columns = groups(j + 1, kSpan);
  if (block < of_matrix) {
    int row = int((sqrtf(float(8 * block + 1)) - 1.0f) * 0.5f);
    while (row * (row + 1) / 2 > block) --row;
    while ((row + 1) * (row + 2) / 2 <= block) ++row;
    return {Place::Of::matrix, first + row * kWide, first + (block - row * (row + 1) / 2) * kWide};
  }
  block -= of_matrix;
  if (block < rows * columns)
    return {Place::Of::rest, first + block / columns * kWide, block % columns * kWide};
  return {Place::Of::result, j * kTile, (block - rows * columns) * kWide};
}

__device__ void load_inverse(const double* from, double* to) {
#pragma unroll
  for (int i = 0; i < kTileSize / 2 / kThreads; ++i) {
    const int at = i * kThreads + int(threadIdx.x);
    copy_two(to + at / (kTile / 2) * kPitch + at % (kTile / 2) * 2, from + 2 * at);
  }
}

/// a(i, j)
template <int kSpan>
__device__ void load_left(MatrixView<const double> a, int row, int j, double* to) {
#pragma unroll
  for (int i = 0; i < kSpan * kTileSize / kThreads; ++i) {
    const int at = i * kThreads + int(threadIdx.x);
    const int r = at / kTile, c = at % kTile;
    const bool valid = row + r < a.rows;
    copy_one(to + r * kPitch + c, valid ? &a(row + r, j * kTile + c) : a.data, valid);
  }
}

/// y(k) = a(k, j)': four lanes read neighbours, eight write neighbours.
template <int kSpan>
__device__ void load_transposed(MatrixView<const double> a, int column, int j, double* to) {
#pragma unroll
  for (int i = 0; i < kSpan * kTileSize / kThreads; ++i) {
    const int at = i * kThreads + int(threadIdx.x);
    const int k = at % 4 + at / 32 % 8 * 4, c = at / 4 % 8 + at / 256 * 8;
    const int row = column + column_of(c);
    const bool valid = row < a.rows;
    copy_one(to + k * BlockMemory<kSpan>::kWidePitch + c, valid ? &a(row, j * kTile + k) : a.data,
             valid);
  }
}

/// y(k) = rest(j, k), or 1 where k is j, or 0 beyond.
template <int kSpan>
__device__ void load_rest(const double* rest, Index pitch, int column, int j, double* to) {
  constexpr int kPairs = kSpan * kTile / 2;
#pragma unroll
  for (int i = 0; i < kSpan * kTileSize / 2 / kThreads; ++i) {
    const int at = i * kThreads + int(threadIdx.x);
    const int k = at / kPairs, c = at % kPairs * 2;
    double* own = to + k * BlockMemory<kSpan>::kWidePitch + c;
    if (column + c < j * kTile) {
      copy_two(own, rest + (j * kTile + k) * pitch + column + c);
    } else {
      own[0] = column_of(column + c) - j * kTile == k ? 1.0 : 0.0;
      own[1] = column_of(column + c + 1) - j * kTile == k ? 1.0 : 0.0;
    }
  }
}

/// Where a warp's fragments are in those of its block.
struct WarpPlace {
  int row, column;
};

template <int kSpan>
__device__ WarpPlace warp_place() {
  const int warp = int(threadIdx.x) / kLanes;
  return {warp / 4 * 16 * kSpan, warp % 4 * 8 * kSpan};
}

template <int kSpan>
using Sums = Fragment[kSpan][kSpan];

/// Only what is on the diagonal and below.
template <int kSpan>
__device__ void read(const Factoring& f, const Place& place, int j, Sums<kSpan>& sum) {
  const MatrixView<double> a = f.a;
  const WarpPlace own = warp_place<kSpan>();
  const int pitch = f.tiles * kTile;
  const auto from_matrix = [&](int r, int c, int e, int row, int at) {
    const int column = column_of(at);
    sum[r][c][e] = row < a.rows && column <= row ? a(row, column) : 0.0;
    sum[r][c][e + 1] = row < a.rows && column + 4 <= row ? a(row, column + 4) : 0.0;
  };
  const auto from_rest = [&](int r, int c, int e, int row, int column) {
    double2 two = make_double2(0.0, 0.0);
    if (row < pitch && column < j * kTile)
      two = *reinterpret_cast<const double2*>(f.rest + Index(row) * pitch + column);
    sum[r][c][e] = two.x;
    sum[r][c][e + 1] = two.y;
  };
  if (place.of == Place::Of::matrix)
    each_pair<kSpan, kSpan>(place.row + own.row, place.column + own.column, from_matrix);
  else
    each_pair<kSpan, kSpan>(place.row + own.row, place.column + own.column, from_rest);
}

template <int kSpan>
__device__ void write(const Factoring& f, const Place& place, int j, const Sums<kSpan>& sum) {
  const MatrixView<double> a = f.a;
  const WarpPlace own = warp_place<kSpan>();
  const int pitch = f.tiles * kTile;
  const auto to_matrix = [&](int r, int c, int e, int row, int at) {
    const int column = column_of(at);
    if (row < a.rows && column <= row) a(row, column) = sum[r][c][e];
    if (row < a.rows && column + 4 <= row) a(row, column + 4) = sum[r][c][e + 1];
  };
  const auto to_rest = [&](int r, int c, int e, int row, int column) {
    if (row < pitch && column < (j + 1) * kTile)
      *reinterpret_cast<double2*>(f.rest + Index(row) * pitch + column) =
          make_double2(sum[r][c][e], sum[r][c][e + 1]);
  };
  if (place.of == Place::Of::matrix)
    each_pair<kSpan, kSpan>(place.row + own.row, place.column + own.column, to_matrix);
  else
    each_pair<kSpan, kSpan>(place.row + own.row, place.column + own.column, to_rest);
}

/// The rows of tile j of the inverse factor, which are R; zero after tile j.
template <int kSpan>
__device__ void write_result(const Factoring& f, const Place& place, int j, const double* inverse,
                             BlockMemory<kSpan>& memory) {
  const MatrixView<double> a = f.a;
  const WarpPlace own = warp_place<kSpan>();
  const int row = own.row / kSpan;
  Fragment sum[1][kSpan] = {};
  if (place.column < (j + 1) * kTile) {
    load_inverse(inverse, memory.inverse);
    load_rest<kSpan>(f.rest, f.tiles * kTile, place.column, j, memory.right);
    wait_for_copies();
    multiply<kPitch, memory.kWidePitch, 1>(memory.inverse + row * kPitch, memory.right + own.column,
                                           sum);
  }
  each_pair<1, kSpan>(place.row + row, place.column + own.column,
                      [&](int r, int c, int e, int at_row, int at) {
                        const int column = column_of(at);
                        if (at_row < a.rows && column < a.cols) a(at_row, column) = sum[r][c][e];
                        if (at_row < a.rows && column + 4 < a.cols)
                          a(at_row, column + 4) = sum[r][c][e + 1];
                      });
}

/// In place of a(i, j) and y(k), -L(i) and R(k).
template <int kSpan>
__device__ void make_operands(BlockMemory<kSpan>& memory) {
  constexpr int kWidePitch = BlockMemory<kSpan>::kWidePitch;
  const WarpPlace own = warp_place<kSpan>();
  const int row = own.row / kSpan, column = own.column / kSpan;
  Fragment left[kSpan][1] = {}, right[1][kSpan] = {};
  multiply<kPitch, 1, kPitch>(memory.left + own.row * kPitch, memory.inverse + column * kPitch,
                              left);
  multiply<kPitch, kWidePitch, 1>(memory.inverse + row * kPitch, memory.right + own.column, right);
  __syncthreads();
  put(left, -1.0, memory.left, kPitch, own.row, column);
  put(right, 1.0, memory.right, kWidePitch, row, own.column);
  __syncthreads();
}

template <int kSpan>
__global__ void __launch_bounds__(kThreads, kBlocks)
    step_kernel(const __grid_constant__ Factorings all, int j) {
  __shared__ BlockMemory<kSpan> memory;
  const int matrix = int(blockIdx.x) % all.count, block = int(blockIdx.x) / all.count;
  const Factoring f = matrix == 0 ? all.of[0] : all.of[1];
  const MatrixView<double> a = f.a;
  const Place place = place_of<kSpan>(block, f.tiles, j);
  const double* inverse = f.diagonal + j % 2 * kTileSize;
  if (place.of == Place::Of::result) {
    write_result(f, place, j, inverse, memory);
    return;
  }
  load_inverse(inverse, memory.inverse);
  load_left<kSpan>(a, place.row, j, memory.left);
  if (place.of == Place::Of::matrix)
    load_transposed<kSpan>(a, place.column, j, memory.right);
  else
    load_rest<kSpan>(f.rest, f.tiles * kTile, place.column, j, memory.right);
  Sums<kSpan> sum;
  read<kSpan>(f, place, j, sum);
  wait_for_copies();
  make_operands(memory);
  const WarpPlace own = warp_place<kSpan>();
  multiply<kPitch, memory.kWidePitch, 1>(memory.left + own.row * kPitch, memory.right + own.column,
                                         sum);
  if (block == 0 && place.of == Place::Of::matrix) {
    // Nobody reads the inverse any more. Warps 0 and 1 have made only what is in the first tile.
    each_pair<kSpan, kSpan>(own.row, own.column, [&](int r, int c, int e, int row, int at) {
      if (row >= kTile || at >= kTile) return;
      double* to = memory.inverse + row * kPitch + column_of(at);
      to[0] = sum[r][c][e];
      to[4] = sum[r][c][e + 1];
    });
    __syncthreads();
    if (threadIdx.x < 2 * kLanes) {
      factor_diagonal(f, j + 1, memory.inverse, memory.left);
      return;
    }
  }
  write<kSpan>(f, place, j, sum);
}

template <int kSpan>
void take_step(const Stream& stream, const Factorings& all, int j) {
  const int blocks = all.count * blocks_of_step(all.of[0].tiles, j, kSpan);
  step_kernel<kSpan><<<unsigned(blocks), kThreads, 0, stream.stream>>>(all, j);
  check_launch("step of factors");
}

Index tiles_of(Index size) {
  return (size + kTile - 1) / kTile;
}

}  // namespace

Index factor_doubles(Index size) {
  const Index rest = tiles_of(size) * kTile;
  return 2 * (rest * rest + 2 * kTileSize);
}

void invert_factors(const Stream& stream, MatrixView<double> a, MatrixView<double> b,
                    VectorView<double> least, double* workspace) {
  const Index tiles = tiles_of(a.rows), rest = tiles * kTile;
  double* diagonals = workspace + 2 * rest * rest;
  const Factorings all{
      {{a, workspace, diagonals, least.data, int(tiles)},
       {b, workspace + rest * rest, diagonals + 2 * kTileSize, least.data + 1, int(tiles)}},
      b.empty() ? 1 : 2};
  begin_kernel<<<unsigned(all.count), kThreads, 0, stream.stream>>>(all);
  check_launch("begin factors");
  for (int j = 0; j < int(tiles); ++j)
    if (tiles > kSmall)
      take_step<2>(stream, all, j);
    else
      take_step<1>(stream, all, j);
}

}  // namespace norn::cuda
