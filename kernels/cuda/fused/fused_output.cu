// SPDX-License-Identifier: Apache-2.0
// Loss and delta of output units in the product that makes them: pre-activations never leave the
// multiprocessor, deltas leave it rounded.
#include "kernels/cuda/fused/output_tile.cuh"
#include "kernels/cuda/fused/tile_sums.cuh"
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tensor_map.h"

#include <cuda_bf16.h>

namespace norn::cuda {
namespace {

using Pipeline = OutputPipeline<Bfloat16>;
constexpr int kWarps = kConsumerThreads / 32;  // of a consumer
constexpr int kListed = 64;                    // stored targets that a warp evaluates at a time

/// A stored target whose pre-activation was handed over.
struct ListedUnit {
  float z;
  short row;
  short col;
};

/// What a warp has of its own: first the one, then the other.
union WarpMemory {
  ListedUnit list[kListed];
  float gradient[kTile];
};

/// What a consumer has of its own.
struct ConsumerMemory {
  WarpMemory warp[kWarps];
  double warp_cost[kWarps];
};

struct SharedMemory {
  unsigned char stages[Pipeline::kStagesBytes];
  unsigned char delta[kConsumers][kTileBytes];
  TileTargets targets[kTargetSlots];
  alignas(16) ConsumerMemory own[kConsumers];
  Pipeline::Barriers barriers;
  TargetBarriers target_barriers;
};

/// A consumer's finished tile, by each of its threads.
template <class LossFunction>
class Bfloat16Tile : public OutputTile<LossFunction> {
 public:
  static constexpr int kFinderRegisters = 56;
  static constexpr int kConsumerRegisters = 224;

  __device__ Bfloat16Tile(const OutputTask<LossFunction>& task, const TileTargets& targets,
                          int consumer, SharedMemory& shared)
      : OutputTile<LossFunction>(task, targets, consumer, shared.own[consumer].warp_cost),
        delta_(shared.delta[consumer]),
        own_(shared.own[consumer]),
        warp_(__shfl_sync(0xFFFFFFFFu, thread_ / 32, 0)),
        first_row_(warp_ * 16) {}

  /// Absent entries, then the stored ones, then away with the tile.
  __device__ void finish(const float (&sum)[2][64]) {
    if (thread_ == 0) hopper::wait_for_store_reads();
    Base::sync();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = first_row_ + 64 * half;
      evaluate_absent(sum[half], first);
      if (targets_.count[first / 64] > 0) evaluate_stored(sum[half], first);
    }
    Base::share_cost();
    if (task_.tile_gradient != nullptr) {
      __syncwarp();
      sum_tile_columns<2>(delta_, first_row_, own_.warp[warp_].gradient);
    }
    hopper::fence_async();
    Base::sync();
    if (thread_ == 0) store();
    if (task_.tile_gradient != nullptr) store_gradient();
  }

 private:
  using Base = OutputTile<LossFunction>;
  using Base::col_;
  using Base::cost_;
  using Base::place_;
  using Base::targets_;
  using Base::task_;
  using Base::thread_;

  /// 16 rows from `first` on, by a warp.
  __device__ void evaluate_absent(const float (&sum)[64], int first) {
    typename LossFunction::Cost cost[2];
    const int mine = first + thread_ % 32 / 4;
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int row = first + 8 * upper;
      const auto shared = task_.loss_function.row(targets_, mine + 8 * upper, task_.boost_zero);
      const unsigned char* to = delta_ + tile_place(row + thread_ % 8, thread_ % 32 / 8 * 8);
      cost[upper] = evaluate_row<false>(sum + 2 * upper, shared, to);
      if (__any_sync(kAll, !cost[upper].fits()))
        cost[upper] = evaluate_row<true>(sum + 2 * upper, shared, to);
    }
    if (!LossFunction::kCostsAbsent) return;
    const float weight[2] = {targets_.weight[mine], targets_.weight[mine + 8]};
    if (weight[0] == weight[1]) {
      cost[0].combine(cost[1]);
      cost_ += double(weight[0] * task_.loss_function.scale) * double(cost[0].total());
    } else {
      cost_ += double(weight[0] * task_.loss_function.scale) * double(cost[0].total()) +
               double(weight[1] * task_.loss_function.scale) * double(cost[1].total());
    }
  }
  /// The thread's 32 units of a row; the warp writes 8 rows. `to` is the lane's place in the first
  /// four octets of columns.
  template <bool kSafe>
  __device__ __forceinline__ typename LossFunction::Cost evaluate_row(
      const float* z, const typename LossFunction::Row& row, const unsigned char* to) const {
    const std::uint32_t place = hopper::shared_address(to);
    typename LossFunction::Cost cost;
#pragma unroll
    for (int j = 0; j < kTile / 8; j += 4) {
      std::uint32_t pair[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const float* two = z + 4 * (j + q);
        const float2 delta = task_.loss_function.template absent<kSafe>(two[0], two[1], row, cost);
        const __nv_bfloat162 both = __floats2bfloat162_rn(delta.x, delta.y);
        pair[q] = *reinterpret_cast<const std::uint32_t*>(&both);
      }
      // The next four octets differ in one bit of the swizzled place, the next eight are a piece
      // on.
      hopper::store_matrices((place ^ std::uint32_t(j % 8 * 16)) + j / 8 * kPieceBytes, pair);
    }
    return cost;
  }

  /// The stored targets of 16 rows from `first` on, by a warp: those who hold their pre-activations
  /// hand them over, so that each lane has one to evaluate.
  __device__ void evaluate_stored(const float (&sum)[64], int first) {
    const int row = first + thread_ % 32 / 4;
    ListedUnit* list = own_.warp[warp_].list;
    int listed = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      // Bit 8 * q + 2 * upper + c belongs to sum 16 * w + 4 * q + 2 * upper + c.
      unsigned left = (targets_.mask[row][w] >> col_ & 0x03030303u) |
                      (targets_.mask[row + 8][w] >> col_ & 0x03030303u) << 2;
      while (const unsigned some = __ballot_sync(kAll, left != 0)) {
        if (listed > kListed - 32) {
          evaluate_listed(listed);
          listed = 0;
        }
        if (left != 0) {
          const int bit = __ffs(int(left)) - 1;
          left &= left - 1;
          list[listed + __popc(some & ((1u << (thread_ % 32)) - 1))] = {
              Base::choose(sum + 16 * w, bit), short(row + (bit >> 1 & 1) * 8),
              short(32 * w + (bit & ~7) + col_ + (bit & 1))};
        }
        listed += __popc(some);
      }
    }
    evaluate_listed(listed);
  }
  __device__ __forceinline__ void evaluate_listed(int count) {
    __syncwarp();
    for (int i = thread_ % 32; i < count; i += 32) {
      const ListedUnit unit = own_.warp[warp_].list[i];
      *reinterpret_cast<__nv_bfloat16*>(delta_ + tile_place(unit.row, unit.col)) =
          __float2bfloat16_rn(Base::evaluate_one(unit.z, unit.row, unit.col));
    }
    __syncwarp();
  }

  __device__ void store() const {
    for (int half = 0; half < 2; ++half)
      for (int piece = 0; piece < 2; ++piece)
        hopper::store_box(task_.delta,
                          hopper::shared_address(delta_) + (2 * half + piece) * kPieceBytes,
                          place_.col + 64 * piece, place_.row + 64 * half);
    hopper::commit_stores();
    if (place_.row >= task_.targets.rows || place_.col >= task_.targets.cols) return;
    double cost = 0.0;
    for (int warp = 0; warp < kWarps; ++warp) cost += own_.warp_cost[warp];
    task_.tile_cost[Index(place_.row / kTile) * task_.targets.tiles + place_.col / kTile] = cost;
  }
  __device__ void store_gradient() const {
    const Index col = place_.col + thread_;
    if (thread_ >= kTile || place_.row >= task_.targets.rows || col >= task_.targets.cols) return;
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += own_.warp[warp].gradient[thread_];
    task_.tile_gradient[Index(place_.row / kTile) * task_.targets.cols + col] = sum;
  }

  static constexpr unsigned kAll = 0xFFFFFFFFu;
  unsigned char* delta_;
  ConsumerMemory& own_;
  int warp_;
  int first_row_;  ///< of the 16 rows of a half that are the warp's; a thread's are number lane / 4
                   ///< and 8 more
};

template <class LossFunction>
__global__ void __cluster_dims__(Pipeline::kBlocks) __launch_bounds__(kTileThreads, 1)
    output_delta_kernel(const __grid_constant__ OutputTask<LossFunction> task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  run_tiles<Bfloat16Tile<LossFunction>, Bfloat16>(task, *reinterpret_cast<SharedMemory*>(bytes));
#endif
}

/// Units beyond the layer have no delta: theirs are the zeros behind the others.
CUtensorMap map_delta(const OutputBlock& block) {
  MatrixView<const Bfloat16> delta = block.bf16_delta;
  const Index padded = (delta.cols + 7) / 8 * 8;
  if (padded <= delta.stride) delta.cols = padded;
  return map_boxes(delta);
}

template <class LossFunction>
void launch(const Stream& stream, const OutputTask<LossFunction>& task) {
  static const int resident = resident_clusters(output_delta_kernel<LossFunction>, kTileThreads,
                                                Pipeline::kBlocks, int(sizeof(SharedMemory)));
  const Index clusters = std::min<Index>(resident, task.operands.order.count());
  output_delta_kernel<LossFunction><<<unsigned(clusters * Pipeline::kBlocks), kTileThreads,
                                      sizeof(SharedMemory), stream.stream>>>(task);
  check_launch("output_delta_kernel");
}

}  // namespace

bool takes_product_bfloat16(const OutputBlock& block) {
  return takes_product(block, block.x.bf16, block.w.bf16);
}

bool output_delta_bfloat16(const Stream& stream, OutputWorkspace& workspace,
                           const OutputBlock& block) {
  const std::optional<UnitLoss> loss_function = unit_loss_of(block);
  if (!loss_function || !takes_product_bfloat16(block) || !can_map(block.bf16_delta) ||
      !has_whole_tiles(block))
    return false;
  const Index rows = block.x.bf16.rows;
  const Index row_tiles = (rows + kTile - 1) / kTile;
  const TargetSource targets = find_targets(stream, workspace, block);
  const TileTotals totals = totals_of(stream, workspace, block, row_tiles, targets.tiles);
  const DeltaBoost boost = boost_of(block);
  std::visit(
      [&](const auto& j) {
        using LossFunction = std::remove_cvref_t<decltype(j)>;
        launch(stream, OutputTask<LossFunction>{product_operands(block.x.bf16, block.w.bf16),
                                                map_delta(block),
                                                {},
                                                j,
                                                targets,
                                                block.target.sparse.value,
                                                block.target.entry_weight,
                                                boost.one,
                                                boost.zero,
                                                totals.tile_cost,
                                                totals.tile_gradient});
      },
      *loss_function);
  return true;
}

}  // namespace norn::cuda
