// SPDX-License-Identifier: Apache-2.0
// Before and after the tiles of an output layer: where their targets are, and what they add up to.
#include "kernels/cuda/column_runs.h"
#include "kernels/cuda/tile_totals.h"

namespace norn::cuda {
namespace {

/// The first block adds the costs, the others a column for each thread.
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

}  // namespace

TargetSource find_targets(const Stream& stream, Scratch<int>& scratch, const OutputBlock& block) {
  static_assert(ColumnRuns::kWidth == kTile);
  const CsrView& sparse = block.target.sparse;
  const Index rows = block.x.rows();
  const Index cols = block.w.rows();
  const Range units{block.first_unit, block.first_unit + cols};
  ColumnRuns runs = block.target_runs;
  if (!runs.cover(units)) {
    int* begin = scratch.reserve(ColumnRuns::size(rows, cols));
    runs = {begin, ColumnRuns::stride_of(rows), units};
    find_column_runs(stream, sparse, runs, begin);
  }
  return {.column = sparse.column,
          .row_begin = sparse.row_begin,
          .offset = runs.from(units.begin),
          .stride = runs.stride,
          .rows = rows,
          .cols = cols,
          .first_unit = block.first_unit,
          .tiles = int(ColumnRuns::runs_of(cols)),
          .bias = block.bias,
          .weight = block.target.weight};
}

void add_totals(const Stream& stream, const TileTotals& totals) {
  const unsigned column_blocks =
      totals.tile_gradient == nullptr ? 0 : blocks_for(totals.cols, kTotalThreads, totals.cols);
  total_kernel<<<1 + column_blocks, kTotalThreads, 0, stream.stream>>>(totals);
  check_launch("total_kernel");
}

}  // namespace norn::cuda
