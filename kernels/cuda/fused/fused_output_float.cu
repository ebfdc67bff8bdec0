// SPDX-License-Identifier: Apache-2.0
// Loss and delta of output units in the product that makes them, in tf32: pre-activations never
// leave the multiprocessor. Deltas leave it twice, as they are for the sources' deltas and
// transposed for the weights' gradient, and so do the sums of their columns.
#include "kernels/cuda/fused/output_tile.cuh"
#include "kernels/cuda/hopper/tensor_map.h"

namespace norn::cuda {
namespace {

using Pipeline = OutputPipeline<float>;

constexpr int kQuarter = kTile / 2;             // rows and columns that are written at a time
constexpr int kQuarterBytes = 2 * kPieceBytes;  // two pieces of 32 columns

struct SharedMemory {
  unsigned char stages[Pipeline::kStagesBytes];
  unsigned char delta[kConsumers][kQuarterBytes];
  unsigned char transposed[kConsumers][kQuarterBytes];
  TileTargets targets[kTargetSlots];
  double warp_cost[kConsumers][4];
  Pipeline::Barriers barriers;
  TargetBarriers target_barriers;
};

/// An element of a quarter tile, where the copy engine wants it.
__device__ inline float* quarter_place(unsigned char* quarter, int row, int col) {
  return reinterpret_cast<float*>(quarter + col / 32 * kPieceBytes + row * 128 +
                                  (col % 32 / 4 ^ row % 8) * 16 + col % 4 * 4);
}

/// One warpgroup's finished tile.
template <class LossFunction>
class FloatTile : public OutputTile<LossFunction, 2> {
 public:
  __device__ FloatTile(const OutputTask<LossFunction>& task, const TileTargets& targets,
                       int consumer, SharedMemory& shared)
      : OutputTile<LossFunction, 2>(task, targets, consumer, shared.warp_cost[consumer]),
        delta_(shared.delta[consumer]),
        transposed_(shared.transposed[consumer]) {}

  __device__ void finish(const float (&sum)[2][64]) {
    quarter<0, 0>(sum[0]);
    quarter<0, 1>(sum[0]);
    quarter<1, 0>(sum[1]);
    quarter<1, 1>(sum[1]);
    if (task_.tile_gradient != nullptr) store_gradient();
  }

 private:
  using Base = OutputTile<LossFunction, 2>;
  using Base::col_;
  using Base::cost_;
  using Base::place_;
  using Base::row_;
  using Base::targets_;
  using Base::task_;
  using Base::thread_;

  /// A quarter of a tile: absent entries, then the stored ones, then away with it.
  template <int kHalf, int kSide>
  __device__ void quarter(const float (&sum)[64]) {
    if (thread_ == 0) hopper::wait_for_store_reads();
    Base::sync();
    evaluate_absent<kHalf, kSide>(sum);
    Base::template evaluate_stored<kHalf, 2 * kSide, 2 * kSide + 2>(
        sum, [&](int row, int col, float delta) {
          *quarter_place(delta_, row, col - kQuarter * kSide) = delta;
          *quarter_place(transposed_, col - kQuarter * kSide, row) = delta;
        });
    if (kHalf == 1 && kSide == 1) Base::share_cost();
    hopper::fence_async();
    Base::sync();
    if (thread_ == 0) store(kHalf, kSide);
    add_columns<kSide>();
  }

  template <int kHalf, int kSide>
  __device__ void evaluate_absent(const float (&sum)[64]) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int row = row_ + 8 * upper;
      const auto shared =
          task_.loss_function.row(targets_, kQuarter * kHalf + row, task_.boost_zero);
      const float* z = sum + 4 * (kQuarter / 8 * kSide) + 2 * upper;
      typename LossFunction::Cost cost = evaluate_row<false>(z, shared, row);
      if (__any_sync(0xFFFFFFFFu, !cost.fits())) cost = evaluate_row<true>(z, shared, row);
      if (!LossFunction::kCostsAbsent) continue;
      const float weight = targets_.weight[kQuarter * kHalf + row];
      cost_ += double(weight * task_.loss_function.scale) * double(cost.total());
    }
  }
  /// The thread's 16 units of a row.
  template <bool kSafe>
  __device__ __forceinline__ typename LossFunction::Cost evaluate_row(
      const float* z, const typename LossFunction::Row& shared, int row) const {
    typename LossFunction::Cost cost;
#pragma unroll
    for (int j = 0; j < kQuarter / 8; ++j) {
      const float2 two =
          task_.loss_function.template absent<kSafe>(z[4 * j], z[4 * j + 1], shared, cost);
      const int col = 8 * j + col_;
      *reinterpret_cast<float2*>(quarter_place(delta_, row, col)) = two;
      *quarter_place(transposed_, col, row) = two.x;
      *quarter_place(transposed_, col + 1, row) = two.y;
    }
    return cost;
  }

  __device__ void store(int half, int side) const {
    const int row = place_.row + kQuarter * half;
    const int col = place_.col + kQuarter * side;
    for (int piece = 0; piece < 2; ++piece) {
      hopper::store_box(task_.delta, hopper::shared_address(delta_) + piece * kPieceBytes,
                        col + 32 * piece, row);
      hopper::store_box(task_.transposed, hopper::shared_address(transposed_) + piece * kPieceBytes,
                        row + 32 * piece, col);
    }
    hopper::commit_stores();
    if (half == 1 && side == 1) Base::store_cost();
  }

  /// Two threads share a column: 32 rows each. They begin in different banks.
  template <int kSide>
  __device__ void add_columns() {
    const int col = thread_ / 2;
    const int piece = thread_ % 2;
    float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = 32 * piece + 4 * (i ^ 4 * piece);
      const float4 four = *reinterpret_cast<const float4*>(quarter_place(transposed_, col, row));
      total.x += four.x;
      total.y += four.y;
      total.z += four.z;
      total.w += four.w;
    }
    gradient_[kSide] += (total.x + total.y) + (total.z + total.w);
  }
  __device__ void store_gradient() const {
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const float other = __shfl_xor_sync(0xFFFFFFFFu, gradient_[side], 1);
      const Index col = place_.col + kQuarter * side + thread_ / 2;
      if (thread_ % 2 == 0 && place_.row < task_.targets.rows && col < task_.targets.cols)
        task_.tile_gradient[Index(place_.row / kTile) * task_.targets.cols + col] =
            gradient_[side] + other;
    }
  }

  unsigned char* delta_;
  unsigned char* transposed_;
  float gradient_[2] = {0.0f, 0.0f};
};

template <class LossFunction>
__global__ void __cluster_dims__(Pipeline::kBlocks) __launch_bounds__(kOutputThreads<float>, 1)
    output_delta_float_kernel(const __grid_constant__ OutputTask<LossFunction> task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  run_tiles<FloatTile<LossFunction>, float>(task, *reinterpret_cast<SharedMemory*>(bytes));
#endif
}

template <class LossFunction>
void launch(const Stream& stream, const OutputTask<LossFunction>& task) {
  launch_tiles<output_delta_float_kernel<LossFunction>, float, SharedMemory>(
      stream, task, "output_delta_float_kernel");
}

}  // namespace

bool takes_product_float(const OutputBlock& block) {
  return takes_product(block, block.x.values, block.w.values);
}

bool output_delta_float(const Stream& stream, OutputWorkspace& workspace,
                        const OutputBlock& block) {
  const std::optional<UnitLoss> loss_function = unit_loss_of(block);
  if (!loss_function || !takes_product_float(block) || !has_whole_tiles(block) ||
      !can_map(MatrixView<const float>(block.delta)) ||
      !can_map(MatrixView<const float>(block.transposed_delta)))
    return false;
  const Index row_tiles = (block.x.values.rows + kTile - 1) / kTile;
  const TargetSource targets = find_targets(stream, workspace, block);
  const TileTotals totals = totals_of(stream, workspace, block, row_tiles, targets.tiles);
  const DeltaBoost boost = boost_of(block);
  std::visit(
      [&](const auto& j) {
        using LossFunction = std::remove_cvref_t<decltype(j)>;
        launch(stream, OutputTask<LossFunction>{
                           product_operands(block.x.values, block.w.values),
                           map_result_boxes(block.delta), map_result_boxes(block.transposed_delta),
                           j, targets, block.target.sparse.value, block.target.entry_weight,
                           boost.one, boost.zero, totals.tile_cost, totals.tile_gradient});
      },
      *loss_function);
  return true;
}

}  // namespace norn::cuda
