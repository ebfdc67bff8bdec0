// SPDX-License-Identifier: Apache-2.0
// The first pass over a SoftMax layer: maximum and sum of every row of every tile, in the registers
// of the product that makes it. The second pass makes the product again and computes its loss, as
// for other layers; pre-activations never go through memory.
#include "kernels/cuda/fused/output_tile.cuh"

namespace norn::cuda {
namespace {

struct StatisticsTask {
  TileOperands operands;
  TargetSource targets;  ///< of which only the biases count
  float2* statistics;    ///< [column tiles x stride] of each row: maximum, sum of e^(z - maximum)
};

template <int kHalves>
class TileStatistics : public ProductTile<kHalves> {
 public:
  static constexpr float padding = -HUGE_VALF;

  template <class Shared>
  __device__ TileStatistics(const StatisticsTask& task, const TileTargets& targets, int group,
                            Shared&)
      : ProductTile<kHalves>(targets, group), task_(task) {}

  __device__ void finish(const float (&sum)[kHalves][64]) const {
    float top[kRows];
    float total[kRows];
    find_maxima(sum, top);
    add_exponentials(sum, top, total);
    const TargetSource& of = task_.targets;
    if (thread_ % 4 != 0 || place_.col >= of.cols) return;
    float2* to = task_.statistics + Index(place_.col / kTile) * of.stride;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Index row = place_.row + 64 * (half_ + r / 2) + 8 * (r % 2) + row_;
      if (row < of.rows) to[row] = {top[r], total[r]};
    }
  }

 private:
  using ProductTile<kHalves>::half_;
  using ProductTile<kHalves>::place_;
  using ProductTile<kHalves>::row_;
  using ProductTile<kHalves>::thread_;

  /// The thread's rows: row r is sums 2 * (r % 2), and one more, of every four of half r / 2. All
  /// go side by side, so that none waits for its own last instruction.
  static constexpr int kRows = 2 * kHalves;
  static __device__ __forceinline__ float2 pair(const float (&sum)[kHalves][64], int r, int j) {
    return {sum[r / 2][4 * j + 2 * (r % 2)], sum[r / 2][4 * j + 2 * (r % 2) + 1]};
  }
  /// Four threads share a row. NaN gets lost here, but not in the sums.
  static __device__ __forceinline__ void find_maxima(const float (&sum)[kHalves][64],
                                                     float (&top)[kRows]) {
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float2 two = pair(sum, r, j);
        const float larger = fmaxf(two.x, two.y);
        top[r] = j == 0 ? larger : fmaxf(top[r], larger);
      }
#pragma unroll
    for (int step = 1; step <= 2; step *= 2)
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        top[r] = fmaxf(top[r], __shfl_xor_sync(0xFFFFFFFFu, top[r], step));
  }
  /// total = sum of e^(z - top); of a row with NaN both become NaN.
  static __device__ __forceinline__ void add_exponentials(const float (&sum)[kHalves][64],
                                                          float (&top)[kRows],
                                                          float (&total)[kRows]) {
    float from[kRows];
    float shift[kRows];
    float odd[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      from[r] = top[r] == -HUGE_VALF ? 0.0f : top[r];
      shift[r] = from[r] * kLog2E;
      total[r] = odd[r] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float2 two = pair(sum, r, j);
        total[r] += exp2_fast(__fmaf_rn(two.x, kLog2E, -shift[r]));
        odd[r] += exp2_fast(__fmaf_rn(two.y, kLog2E, -shift[r]));
      }
#pragma unroll
    for (int r = 0; r < kRows; ++r) total[r] += odd[r];
#pragma unroll
    for (int step = 1; step <= 2; step *= 2)
#pragma unroll
      for (int r = 0; r < kRows; ++r) total[r] += __shfl_xor_sync(0xFFFFFFFFu, total[r], step);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      // The shift is rounded: 2^-x = 1 - x ln 2 for the x that it lacks.
      const float rest = __fmaf_rn(from[r], kLog2E, -shift[r]);
      total[r] = __fmaf_rn(total[r], -0.693147181f * rest, total[r]);
      if (total[r] != total[r]) top[r] = total[r];
    }
  }

  const StatisticsTask& task_;
};

template <typename T>
__global__ void __cluster_dims__(OutputPipeline<T>::kBlocks) __launch_bounds__(kOutputThreads<T>, 1)
    softmax_statistics_kernel(const __grid_constant__ StatisticsTask task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  run_tiles<TileStatistics<OutputPipeline<T>::kGroupHalves>, T>(
      task, *reinterpret_cast<OutputMemory<T>*>(bytes));
#endif
}

/// Blocks: 32 rows x blocks of the layer. A block's tiles are shared out to kSlices threads, whose
/// parts are combined in order: what comes of it depends on this block alone.
constexpr int kRowsAtOnce = 32;
constexpr int kSlices = 8;
__global__ void __launch_bounds__(kRowsAtOnce* kSlices)
    combine_tiles_kernel(const StatisticsTask task, int tiles, int block_tiles,
                         MatrixView<float> maximum, MatrixView<float> sum) {
  __shared__ float tops[kSlices][kRowsAtOnce];
  __shared__ double sums[kSlices][kRowsAtOnce];
  const int lane = int(threadIdx.x % kRowsAtOnce);
  const int slice = int(threadIdx.x / kRowsAtOnce);
  const Index row = Index(blockIdx.x) * kRowsAtOnce + lane;
  const int first = int(blockIdx.y) * block_tiles;
  const int last = min(first + block_tiles, tiles);
  const float2* of = task.statistics + min(row, task.targets.rows - 1);
  float top = -HUGE_VALF;
#pragma unroll 4
  for (int tile = first + slice; tile < last; tile += kSlices) {
    const float other = of[tile * task.targets.stride].x;
    top = other > top || other != other ? other : top;
  }
  tops[slice][lane] = top;
  __syncthreads();
  for (int s = 0; s < kSlices; ++s) {
    const float other = tops[s][lane];
    top = other > top || other != other ? other : top;
  }
  const float from = top == -HUGE_VALF ? 0.0f : top;
  double total = 0.0;
#pragma unroll 4
  for (int tile = first + slice; tile < last; tile += kSlices) {
    const float2 one = of[tile * task.targets.stride];
    total += double(one.y * math::exp_nonpositive(one.x - from));
  }
  sums[slice][lane] = total;
  __syncthreads();
  if (slice != 0 || row >= task.targets.rows) return;
  for (int s = 1; s < kSlices; ++s) total += sums[s][lane];
  maximum(blockIdx.y, row) = top;
  sum(blockIdx.y, row) = float(total);
}

template <typename T>
void launch(const Stream& stream, const StatisticsTask& task) {
  launch_tiles<softmax_statistics_kernel<T>, T, OutputMemory<T>>(stream, task,
                                                                 "softmax_statistics_kernel");
}

/// A thread for each row.
constexpr int kRowThreads = 128;
__global__ void __launch_bounds__(kRowThreads)
    softmax_rows_kernel(SoftMaxCost cost, SoftMaxTargetRule rule, TargetView target,
                        SoftMaxRows rows, SoftMaxTileRow* to) {
  const Index r = Index(blockIdx.x) * kRowThreads + threadIdx.x;
  if (r >= rows.maximum.size) return;
  const double total = double(rows.total[r]) * FixedFormatOfRows::unit;
  const double coupling = double(rows.coupling[r]) * FixedFormatOfRows::unit;
  const float maximum = rows.maximum[r];
  const float rest = __fmaf_rn(maximum, kLog2E, -(maximum * kLog2E));
  to[r] = {maximum, float(-coupling / total * exp2(-double(rest))), rule.unit(cost, target, r),
           float(log(total))};
}

}  // namespace

bool softmax_statistics(const Stream& stream, OutputWorkspace& workspace, const OutputBlock& block,
                        MatrixView<float> maximum, MatrixView<float> sum) {
  const bool rounds = stream.precision == Precision::bf16;
  const bool whole_tiles = block.block_width == 0 || block.block_width % kTile == 0;
  if (!unit_loss_of(block) || !whole_tiles ||
      !(rounds ? takes_product_bfloat16(block) : takes_product_float(block)))
    return false;
  StatisticsTask task;
  task.operands = rounds ? product_operands(block.x.bf16, block.w.bf16)
                         : product_operands(block.x.values, block.w.values);
  task.targets = {.rows = block.x.rows(), .cols = block.w.rows(), .bias = block.bias};
  task.targets.stride = ColumnRuns::stride_of(task.targets.rows);
  const int tiles = int(ColumnRuns::runs_of(task.targets.cols));
  task.statistics = workspace.statistics.reserve(tiles * task.targets.stride);
  rounds ? launch<Bfloat16>(stream, task) : launch<float>(stream, task);
  const int block_tiles = block.block_width == 0 ? tiles : int(block.block_width / kTile);
  const dim3 grid(unsigned((task.targets.rows + kRowsAtOnce - 1) / kRowsAtOnce),
                  unsigned((tiles + block_tiles - 1) / block_tiles));
  combine_tiles_kernel<<<grid, kRowsAtOnce * kSlices, 0, stream.stream>>>(task, tiles, block_tiles,
                                                                          maximum, sum);
  check_launch("combine_tiles_kernel");
  return true;
}

void softmax_rows(const Stream& stream, OutputWorkspace& workspace, const SoftMaxCost& rule,
                  const TargetView& target, const SoftMaxRows& rows) {
  const std::optional<SoftMaxTargetRule> targets = softmax_target_rule(rule.loss);
  if (!targets || rows.maximum.empty()) return;
  const Index count = rows.maximum.size;
  softmax_rows_kernel<<<unsigned((count + kRowThreads - 1) / kRowThreads), kRowThreads, 0,
                        stream.stream>>>(rule, *targets, target, rows,
                                         workspace.softmax_row.reserve(count));
  check_launch("softmax_rows_kernel");
}

}  // namespace norn::cuda
