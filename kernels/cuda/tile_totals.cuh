// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/tensor/views.h"

/// What remains to be done after the tiles of an output layer.
namespace norn::cuda {

/// What the tiles leave to be added up.
struct TileTotals {
  const double* tile_cost;  ///< [tiles]
  Index tiles;
  double* cost;
  const float* tile_gradient;  ///< [row_tiles x cols]
  Index row_tiles;
  Index cols;
  double scale;
  float* gradient;  ///< [cols]
};

/// The first block adds the costs, the others a column for each thread, in orders that the numbers
/// of tiles fix.
constexpr int kTotalThreads = 512;
__global__ void __launch_bounds__(kTotalThreads) total_kernel(const TileTotals task) {
  if (blockIdx.x > 0) {
    const Index col = Index(blockIdx.x - 1) * kTotalThreads + threadIdx.x;
    if (col >= task.cols) return;
    double sum = 0.0;
#pragma unroll 8
    for (Index i = 0; i < task.row_tiles; ++i)
      sum += double(task.tile_gradient[i * task.cols + col]);
    task.gradient[col] = float(task.scale * sum);
    return;
  }
  __shared__ double part[kTotalThreads];
  double sum = 0.0;
#pragma unroll 8
  for (Index i = threadIdx.x; i < task.tiles; i += kTotalThreads) sum += task.tile_cost[i];
  part[threadIdx.x] = sum;
  for (unsigned half = kTotalThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *task.cost = part[0];
}

}  // namespace norn::cuda
