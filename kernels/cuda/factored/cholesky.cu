// SPDX-License-Identifier: Apache-2.0
// Inverse factors of symmetric matrices, tile by tile: step j applies what is below the diagonal
// tile j to all that comes after it, to the matrix and to the inverse factor alike, in one kernel.
// The block that makes the next diagonal tile factorises that, too.
#include "kernels/cuda/factored/factored_parts.h"

namespace norn::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kThreads = 256;
constexpr int kStride = kTile + 1;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

using Tile = double[kTile][kStride];

/// Of each matrix. `rest`: the inverse factor's rows that are still changed.
struct Factoring {
  MatrixView<double> a[2];
  double* rest[2];
  double* diagonal[2];  // inverse factors of the tiles j and j + 1
  double* least;
};

__device__ void load(MatrixView<const double> m, Index i, Index k, Tile& tile) {
  for (int at = int(threadIdx.x); at < kTile * kTile; at += kThreads) {
    const int r = at / kTile, c = at % kTile;
    const Index row = i * kTile + r, col = k * kTile + c;
    tile[r][c] = row < m.rows && col < m.cols ? m(row, col) : 0.0;
  }
}

__device__ void store_tile(const Tile& tile, MatrixView<double> m, Index i, Index k) {
  for (int at = int(threadIdx.x); at < kTile * kTile; at += kThreads) {
    const int r = at / kTile, c = at % kTile;
    const Index row = i * kTile + r, col = k * kTile + c;
    if (row < m.rows && col < m.cols) m(row, col) = tile[r][c];
  }
}

/// c = keep c + sign a b, or a b'. Nobody else reads or writes c.
template <bool kTransposed>
__device__ void multiply(const Tile& a, const Tile& b, double sign, double keep, Tile& c) {
  const int r = int(threadIdx.x) / 8, first = int(threadIdx.x) % 8;
  double sum[4] = {};
#pragma unroll 8
  for (int k = 0; k < kTile; ++k)
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int column = first + 8 * q;
      sum[q] = fma(a[r][k], kTransposed ? b[column][k] : b[k][column], sum[q]);
    }
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const double before = keep == 0.0 ? 0.0 : c[r][first + 8 * q];
    c[r][first + 8 * q] = before + sign * sum[q];
  }
}

/// The lower factor of a tile and its inverse: a lane a row, then a lane a column. Beyond `valid`
/// it is 1. For one warp. The least pivot.
__device__ double factor_tile(Tile& tile, int valid, Tile& inverse) {
  const int lane = int(threadIdx.x) % kTile;
  double a[kTile], least = INFINITY;
#pragma unroll
  for (int c = 0; c < kTile; ++c)
    a[c] = lane >= valid ? (c == lane ? 1.0 : 0.0) : (c <= lane ? tile[lane][c] : 0.0);
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kTile; ++j) {
    const double pivot = __shfl_sync(kAllLanes, a[j], j);
    if (j < valid && !(pivot >= least)) least = pivot;
    const double root = sqrt(pivot);
    a[j] = lane == j ? root : a[j] / root;
#pragma unroll
    for (int c = j + 1; c < kTile; ++c) a[c] = fma(-a[j], __shfl_sync(kAllLanes, a[j], c), a[c]);
  }
#pragma unroll
  for (int c = 0; c < kTile; ++c) tile[lane][c] = a[c];
  __syncwarp();
  double x[kTile];
#pragma unroll
  for (int i = 0; i < kTile; ++i) x[i] = i == lane ? 1.0 : 0.0;
#pragma unroll
  for (int k = 0; k < kTile; ++k) {
    x[k] /= tile[k][k];
#pragma unroll
    for (int i = k + 1; i < kTile; ++i) x[i] = fma(-tile[i][k], x[k], x[i]);
  }
#pragma unroll
  for (int i = 0; i < kTile; ++i) inverse[i][lane] = i < lane ? 0.0 : x[i];
  return least;
}

/// The inverse factor of tile `i` to where the next step finds it, from what stands in `tile`.
__device__ void factor_diagonal(const Factoring& f, Index n, Index i, Tile& tile, Tile& inverse) {
  __syncthreads();
  const int valid = int(n - i * kTile < kTile ? n - i * kTile : kTile);
  if (threadIdx.x < kTile) {
    const double pivot = factor_tile(tile, valid, inverse);
    double* least = f.least + blockIdx.z;
    if (threadIdx.x == 0 && (i == 0 || !(pivot >= *least))) *least = pivot;
  }
  __syncthreads();
  double* to = f.diagonal[blockIdx.z] + i % 2 * kTile * kTile;
  for (int at = int(threadIdx.x); at < kTile * kTile; at += kThreads)
    to[at] = inverse[at / kTile][at % kTile];
}

__global__ void __launch_bounds__(kThreads) begin_kernel(Factoring f) {
  __shared__ Tile tile, inverse;
  const MatrixView<double> a = f.a[blockIdx.z];
  load(a, 0, 0, tile);
  factor_diagonal(f, a.rows, 0, tile, inverse);
}

__global__ void __launch_bounds__(kThreads) step_kernel(Factoring f, Index j) {
  __shared__ Tile own, left, right, inverse, product;
  const MatrixView<double> a = f.a[blockIdx.z];
  const MatrixView<double> rest{f.rest[blockIdx.z], a.rows, a.cols, a.cols};
  const Index i = j + blockIdx.y, k = blockIdx.x;
  if (i > j && k > i) return;
  const double* from = f.diagonal[blockIdx.z] + j % 2 * kTile * kTile;
  for (int at = int(threadIdx.x); at < kTile * kTile; at += kThreads)
    inverse[at / kTile][at % kTile] = k > j && i == j ? 0.0 : from[at];
  if (k < j) load(rest, j, k, right);
  if (i == j) {  // the rows of the result
    __syncthreads();
    if (k < j) multiply<false>(inverse, right, 1.0, 0.0, product);
    __syncthreads();
    store_tile(k < j ? product : inverse, a, j, k);
    return;
  }
  load(a, i, j, left);
  if (k > j && k < i) load(a, k, j, right);
  if (k > j) load(a, i, k, own);
  if (k < j) load(rest, i, k, own);
  __syncthreads();
  multiply<true>(left, inverse, 1.0, 0.0, product);  // of the factor
  __syncthreads();
  if (k > j && k < i) {
    multiply<true>(right, inverse, 1.0, 0.0, left);
    __syncthreads();
    multiply<true>(product, left, -1.0, 1.0, own);
  } else if (k == i) {
    multiply<true>(product, product, -1.0, 1.0, own);
  } else if (k == j) {
    multiply<false>(product, inverse, -1.0, 0.0, own);
  } else {
    multiply<false>(inverse, right, 1.0, 0.0, left);
    __syncthreads();
    multiply<false>(product, left, -1.0, 1.0, own);
  }
  __syncthreads();
  store_tile(own, k > j ? a : rest, i, k);
  if (i == j + 1 && k == i) factor_diagonal(f, a.rows, i, own, inverse);
}

}  // namespace

Index factor_doubles(Index size) {
  return 2 * (size * size + 2 * kTile * kTile);
}

void invert_factors(const Stream& stream, MatrixView<double> a, MatrixView<double> b,
                    VectorView<double> least, double* workspace) {
  const Index n = a.rows, tiles = (n + kTile - 1) / kTile;
  const unsigned count = b.empty() ? 1 : 2;
  Factoring f{{a, b}, {}, {}, least.data};
  for (int i = 0; i < 2; ++i) {
    f.rest[i] = workspace + i * n * n;
    f.diagonal[i] = workspace + 2 * n * n + i * 2 * kTile * kTile;
  }
  begin_kernel<<<dim3(1, 1, count), kThreads, 0, stream.stream>>>(f);
  check_launch("begin factors");
  for (Index j = 0; j < tiles; ++j) {
    step_kernel<<<dim3(unsigned(tiles), unsigned(tiles - j), count), kThreads, 0, stream.stream>>>(
        f, j);
    check_launch("step of factors");
  }
}

}  // namespace norn::cuda
