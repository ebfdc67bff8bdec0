// SPDX-License-Identifier: Apache-2.0
// Transposes matrices in square tiles, which go through shared memory.
#include "kernels/cuda/dense/transpose.h"

namespace norn::cuda {
namespace {

constexpr int kSide = 32;  // of a tile
constexpr int kRowsAtOnce = 8;
constexpr Index kMaximumGrid = 65535;

__global__ void __launch_bounds__(kSide* kRowsAtOnce)
    transpose_kernel(MatrixView<const float> from, MatrixView<float> to, Index row_tiles) {
  __shared__ float tile[kSide][kSide + 1];
  const int x = int(threadIdx.x);
  const int y = int(threadIdx.y);
  const Index first_col = Index(blockIdx.x) * kSide;
  for (Index row_tile = blockIdx.y; row_tile < row_tiles; row_tile += gridDim.y) {
    const Index first_row = row_tile * kSide;
#pragma unroll
    for (int i = y; i < kSide; i += kRowsAtOnce)
      tile[i][x] = first_row + i < from.rows && first_col + x < from.cols
                       ? from(first_row + i, first_col + x)
                       : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = y; i < kSide; i += kRowsAtOnce)
      if (first_col + i < to.rows && first_row + x < to.cols)
        to(first_col + i, first_row + x) = tile[x][i];
    __syncthreads();
  }
}

}  // namespace

void transpose(const Stream& stream, MatrixView<const float> from, MatrixView<float> to) {
  if (to.empty()) return;
  const auto tiles = [](Index size) { return (size + kSide - 1) / kSide; };
  const dim3 grid(unsigned(tiles(to.rows)), unsigned(std::min(tiles(to.cols), kMaximumGrid)));
  transpose_kernel<<<grid, dim3(kSide, kRowsAtOnce), 0, stream.stream>>>(from, to, tiles(to.cols));
  check_launch("transpose_kernel");
}

}  // namespace norn::cuda
