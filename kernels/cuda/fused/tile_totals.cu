// SPDX-License-Identifier: Apache-2.0
// Before and after the tiles of an output layer: where their targets are, and what they add up to.
#include "kernels/cuda/fused/tile_totals.h"
#include "kernels/cuda/sparse/column_runs.h"

namespace norn::cuda {
namespace {

struct TotalsList {
  TileTotals of[OutputWorkspace::kMostTotals];
};

/// Blocks: parts of a list's entry x entries. The first part adds the costs, the others a column
/// for each thread.
constexpr int kTotalThreads = 512;
__global__ void __launch_bounds__(kTotalThreads) total_kernel(const TotalsList list) {
  const TileTotals& task = list.of[blockIdx.y];
  if (blockIdx.x > 0) {
    const Index col = Index(blockIdx.x - 1) * kTotalThreads + threadIdx.x;
    if (col >= task.cols || task.tile_gradient == nullptr) return;
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
  for (Index i = threadIdx.x; i < task.row_tiles * task.col_tiles; i += kTotalThreads)
    sum += task.tile_cost[i / task.col_tiles * task.tile_stride + i % task.col_tiles];
  part[threadIdx.x] = sum;
  for (unsigned half = kTotalThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *task.cost = part[0];
}

}  // namespace

TargetSource find_targets(const Stream& stream, OutputWorkspace& workspace,
                          const OutputBlock& block) {
  static_assert(ColumnRuns::kWidth == kTile);
  const CsrView& sparse = block.target.sparse;
  const Index rows = block.x.rows();
  const Index cols = block.w.rows();
  const Range units{block.first_unit, block.first_unit + cols};
  ColumnRuns runs = block.target_runs;
  if (!runs.cover(units)) {
    int* begin = workspace.target_offset.reserve(ColumnRuns::size(rows, cols));
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
          .weight = block.target.weight,
          .row = std::holds_alternative<SoftMaxCost>(block.rule) ? workspace.softmax_row.data()
                                                                 : nullptr};
}

bool has_whole_tiles(const OutputBlock& block) {
  return block.block_width == 0 ||
         (block.block_width % kTile == 0 &&
          block.w.rows() <= OutputWorkspace::kMostTotals * block.block_width);
}

TileTotals totals_of(const Stream& stream, OutputWorkspace& workspace, const OutputBlock& block,
                     Index row_tiles, Index col_tiles) {
  const Index block_tiles = block.block_width > 0 ? block.block_width / kTile : col_tiles;
  const auto blocks = std::size_t((col_tiles + block_tiles - 1) / block_tiles);
  if (workspace.pending.size() + blocks > workspace.tiles.size()) add_totals(stream, workspace);
  OutputWorkspace::Tiles& room = workspace.tiles[workspace.pending.size()];
  TileTotals totals;
  totals.tile_stride = col_tiles;
  totals.col_tiles = std::min(block_tiles, col_tiles);
  totals.tile_cost = room.cost.reserve(row_tiles * col_tiles);
  totals.cost = block.cost;
  totals.row_tiles = row_tiles;
  totals.cols = block.w.rows();
  if (!block.bias_gradient.empty()) {
    totals.tile_gradient = room.gradient.reserve(row_tiles * totals.cols);
    totals.scale = double(block.bias_scale);
    totals.gradient = block.bias_gradient.data;
  }
  workspace.pending.push_back(totals);
  for (Index i = 1; i < Index(blocks); ++i) {
    TileTotals next;
    next.tile_cost = totals.tile_cost + i * block_tiles;
    next.tile_stride = col_tiles;
    next.col_tiles = std::min(block_tiles, col_tiles - i * block_tiles);
    next.cost = block.cost + i;
    next.row_tiles = row_tiles;
    workspace.pending.push_back(next);
  }
  return totals;
}

void add_totals(const Stream& stream, OutputWorkspace& workspace) {
  if (workspace.pending.empty()) return;
  TotalsList list{};
  Index cols = 0;
  for (std::size_t i = 0; i < workspace.pending.size(); ++i) {
    list.of[i] = workspace.pending[i];
    if (list.of[i].tile_gradient != nullptr) cols = std::max(cols, list.of[i].cols);
  }
  const unsigned column_blocks = cols == 0 ? 0 : blocks_for(cols, kTotalThreads, cols);
  const dim3 grid(1 + column_blocks, unsigned(workspace.pending.size()));
  total_kernel<<<grid, kTotalThreads, 0, stream.stream>>>(list);
  check_launch("total_kernel");
  workspace.pending.clear();
}

}  // namespace norn::cuda
