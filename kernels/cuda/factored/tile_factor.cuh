// SPDX-License-Identifier: Apache-2.0
// Tiles of 32 x 32 in shared memory: their products by tensor cores in float64, and the inverse
// factor of one, by two warps.
#pragma once

namespace norn::cuda {

inline constexpr int kTile = 32;
inline constexpr int kTileSize = kTile * kTile;
inline constexpr int kPanel = 8;  // columns of a tile that are factorised at once
inline constexpr int kLanes = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;
// Rows are 4 elements apart modulo 16, so that half a warp finds a fragment in 16 places of 8
// bytes.
inline constexpr int kPadding = 4;
inline constexpr int kPitch = kTile + kPadding;

/// A 16 x 8 fragment of a sum. Lane 4 g + q has columns 2 q and 2 q + 1 of the rows g and g + 8.
using Fragment = double[4];

/// sum += a b, with columns q and q + 4 of a, rows q and q + 4 of b's column g.
inline __device__ void multiply_add(Fragment& sum, const double (&a)[4], const double (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

/// sum += a b, of a warp. Elements (r, k) of a are at r kDownA + k, those (k, c) of b at
/// k kDownB + c kAcrossB.
template <int kDownA, int kDownB, int kAcrossB, int kRows, int kCols>
__device__ void multiply(const double* a, const double* b, Fragment (&sum)[kRows][kCols]) {
  const int lane = int(threadIdx.x) % kLanes, g = lane / 4, q = lane % 4;
  a += g * kDownA + q;
  b += q * kDownB + g * kAcrossB;
#pragma unroll 2
  for (int k = 0; k < kTile; k += 8) {
    double left[kRows][4], right[kCols][2];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e) left[r][e] = a[(16 * r + e % 2 * 8) * kDownA + k + e / 2 * 4];
#pragma unroll
    for (int c = 0; c < kCols; ++c)
#pragma unroll
      for (int e = 0; e < 2; ++e) right[c][e] = b[(k + 4 * e) * kDownB + 8 * c * kAcrossB];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kCols; ++c) multiply_add(sum[r][c], left[r], right[c]);
  }
}

/// Calls with the fragment, the first of two elements in it, their row and, as fragments count
/// them, their column.
template <int kRows, int kCols, typename Do>
__device__ void each_pair(int row, int column, const Do& act) {
  const int lane = int(threadIdx.x) % kLanes;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int c = 0; c < kCols; ++c)
        act(r, c, 2 * half, row + 16 * r + 8 * half + lane / 4, column + 8 * c + lane % 4 * 2);
}

template <int kRows, int kCols>
__device__ void put(const Fragment (&sum)[kRows][kCols], double sign, double* to, int pitch,
                    int row, int column) {
  each_pair<kRows, kCols>(row, column, [&](int r, int c, int e, int at_row, int at_column) {
    *reinterpret_cast<double2*>(to + at_row * pitch + at_column) =
        make_double2(sign * sum[r][c][e], sign * sum[r][c][e + 1]);
  });
}

/// 1 / sqrt(x) within an ulp or so, without branches; no number where x is not above 0.
inline __device__ double reciprocal_root(double x) {
  double y;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  const double error = fma(-x, y * y, 1.0);
  return fma(y * error, fma(0.375, error, 0.5), y);
}

/// What a panel of a factor, `kFrom` and the columns after it, adds to all later columns of rows
/// that have it: of a warp.
template <int kFrom>
__device__ void apply_panel(const double* factor, double* rows) {
  constexpr int kNext = kFrom + kPanel, kCount = (kTile - kNext) / kPanel;
  const int lane = int(threadIdx.x) % kLanes, g = lane / 4, q = lane % 4;
  __syncwarp();
  Fragment sum[2][kCount];
  each_pair<2, kCount>(0, kNext, [&](int r, int c, int e, int row, int column) {
    const double2 two = *reinterpret_cast<const double2*>(rows + row * kPitch + column);
    sum[r][c][e] = two.x;
    sum[r][c][e + 1] = two.y;
  });
  double left[2][4], right[kCount][2];
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      left[r][e] = -rows[(16 * r + e % 2 * 8 + g) * kPitch + kFrom + e / 2 * 4 + q];
#pragma unroll
  for (int c = 0; c < kCount; ++c)
#pragma unroll
    for (int e = 0; e < 2; ++e)
      right[c][e] = factor[(kNext + 8 * c + g) * kPitch + kFrom + 4 * e + q];
#pragma unroll
  for (int c = 0; c < kCount; ++c)
#pragma unroll
    for (int r = 0; r < 2; ++r) multiply_add(sum[r][c], left[r], right[c]);
  put(sum, 1.0, rows, kPitch, 0, kNext);
  __syncwarp();
}

inline __device__ void get_row(const double* from, double (&to)[kPanel]) {
#pragma unroll
  for (int c = 0; c < kPanel; c += 2) {
    const double2 two = *reinterpret_cast<const double2*>(from + c);
    to[c] = two.x;
    to[c + 1] = two.y;
  }
}

inline __device__ void put_row(const double (&from)[kPanel], double* to) {
#pragma unroll
  for (int c = 0; c < kPanel; c += 2)
    *reinterpret_cast<double2*>(to + c) = make_double2(from[c], from[c + 1]);
}

/// Warp 0 makes a panel of a tile's factor, a lane a row. On the diagonal is 1 over the factor's.
template <int kFrom>
__device__ void factor_panel(double* tile, int valid, double& least) {
  const int lane = int(threadIdx.x);
  double a[kPanel];
  get_row(tile + lane * kPitch + kFrom, a);
#pragma unroll
  for (int c = 0; c < kPanel; ++c)
    if (lane >= valid) a[c] = lane == kFrom + c ? 1.0 : 0.0;
  double pivot = __shfl_sync(kAllLanes, a[0], kFrom);
#pragma unroll
  for (int j = 0; j < kPanel; ++j) {
    if (kFrom + j < valid && !(pivot >= least)) least = pivot;
    const double reciprocal = reciprocal_root(pivot), own = a[j] * reciprocal;
#pragma unroll
    for (int c = j + 1; c < kPanel; ++c) {
      const double of_column = __shfl_sync(kAllLanes, own, kFrom + c);
      // The next column waits for this alone.
      if (c == j + 1) pivot = fma(-of_column, of_column, __shfl_sync(kAllLanes, a[c], kFrom + c));
      a[c] = fma(-own, of_column, a[c]);
    }
    a[j] = lane == kFrom + j ? reciprocal : own;
  }
  put_row(a, tile + lane * kPitch + kFrom);
}

/// Warp 1 makes as many columns of the inverse's transpose, a lane a row, from 1 as from a tile.
template <int kFrom>
__device__ void invert_panel(const double* factor, double* rows, double* to) {
  const int lane = int(threadIdx.x) % kLanes;
  double x[kPanel];
  get_row(rows + lane * kPitch + kFrom, x);
#pragma unroll
  for (int j = 0; j < kPanel; ++j) {
    x[j] *= factor[(kFrom + j) * kPitch + kFrom + j];
#pragma unroll
    for (int c = j + 1; c < kPanel; ++c)
      x[c] = fma(-x[j], factor[(kFrom + c) * kPitch + kFrom + j], x[c]);
    to[(kFrom + j) * kTile + lane] = kFrom + j < lane ? 0.0 : x[j];
  }
  put_row(x, rows + lane * kPitch + kFrom);
}

/// Warp 0 makes the factor, warp 1 its inverse, a panel behind.
template <int kFrom>
__device__ void factor_from(double* tile, int valid, double* rows, double* to, double& least) {
  constexpr int kBarrier = 1 + kFrom / kPanel;
  if (threadIdx.x < kLanes) {
    factor_panel<kFrom>(tile, valid, least);
    __threadfence_block();
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(2 * kLanes) : "memory");
    if constexpr (kFrom + kPanel < kTile) apply_panel<kFrom>(tile, tile);
  } else {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(2 * kLanes) : "memory");
    invert_panel<kFrom>(tile, rows, to);
    if constexpr (kFrom + kPanel < kTile) apply_panel<kFrom>(tile, rows);
  }
  if constexpr (kFrom + kPanel < kTile) factor_from<kFrom + kPanel>(tile, valid, rows, to, least);
}

}  // namespace norn::cuda
