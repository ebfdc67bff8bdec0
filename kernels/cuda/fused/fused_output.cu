// SPDX-License-Identifier: Apache-2.0
// Loss and delta of output units in the product that makes them: pre-activations never leave the
// multiprocessor, deltas leave it rounded.
#include "kernels/cuda/fused/output_tile.cuh"
#include "kernels/cuda/fused/tile_sums.cuh"
#include "kernels/cuda/hopper/tensor_map.h"

#include <cuda_bf16.h>

namespace norn::cuda {
namespace {

using Pipeline = OutputPipeline<Bfloat16>;
constexpr int kPair = 2;  // warpgroups share a tile: each has a half of its rows
static_assert(Pipeline::kGroups == kPair && Pipeline::kGroupHalves == 1);
constexpr int kWarps = kConsumerThreads / 32;  // of a warpgroup
constexpr int kListed = 64;                    // stored targets that a warp evaluates at a time
constexpr int kPairBarrier = kConsumerBarrier + kPair * kConsumers;  // named barriers 7 and 8
constexpr int kCostBarrier = kPairBarrier + kConsumers;              // 9 and 10

/// Stored targets whose pre-activations were handed over.
struct ListedUnits {
  float z[kListed];
  short place[kListed];  ///< kTile * row + column
};

/// What a warp has of its own: one after the other.
union WarpMemory {
  ListedUnits list;
  double cost[32];  ///< of a thread of the first half, which the second adds to
  float gradient[kTile / kPair];
};

/// What a pair has of its own.
struct PairMemory {
  WarpMemory warp[kPair][kWarps];
  double warp_cost[kWarps];
};

struct SharedMemory {
  unsigned char stages[Pipeline::kStagesBytes];
  unsigned char delta[kConsumers][kTileBytes];
  TileTargets targets[kTargetSlots];
  alignas(16) PairMemory own[kConsumers];
  Pipeline::Barriers barriers;
  TargetBarriers target_barriers;
};

/// A half of a pair's finished tile, by each of a warpgroup's threads. A thread's costs are those
/// of its rows in the first half, then in the second; columns are summed over both.
template <class LossFunction>
class Bfloat16Tile : public OutputTile<LossFunction, 1> {
 public:
  __device__ Bfloat16Tile(const OutputTask<LossFunction>& task, const TileTargets& targets,
                          int group, SharedMemory& shared)
      : OutputTile<LossFunction, 1>(task, targets, group, shared.own[group / kPair].warp_cost),
        delta_(shared.delta[group / kPair]),
        own_(shared.own[group / kPair]),
        pair_(group / kPair),
        warp_(__shfl_sync(0xFFFFFFFFu, thread_ / 32, 0)),
        first_row_(64 * half_ + 16 * warp_) {}

  /// What the tile before has left may be overwritten once both warpgroups of the pair have come to
  /// their turn.
  __device__ void begin(float (&sum)[1][64]) const {
    if (thread_ == 0) hopper::wait_for_store_reads();
    Base::begin(sum);
  }

  /// Absent entries, then the stored ones, then away with the tile.
  __device__ void finish(const float (&sum)[1][64]) {
    const double absent = evaluate_absent(sum[0]);
    const bool hands_cost = LossFunction::kCostsAbsent || targets_.count[0] > 0;
    if (half_ == 1 && hands_cost) {
      hopper::named_sync(kCostBarrier + pair_, Pipeline::kThreads);
      cost_ = own_.warp[0][warp_].cost[thread_ % 32];
    }
    cost_ += absent;
    if (targets_.count[half_] > 0) evaluate_stored(sum[0]);
    if (half_ == 1) Base::share_cost();
    if (half_ == 0 && hands_cost) {
      own_.warp[0][warp_].cost[thread_ % 32] = cost_;
      hopper::named_arrive(kCostBarrier + pair_, Pipeline::kThreads);
    }
    hopper::fence_async();
    hopper::named_sync(kPairBarrier + pair_, Pipeline::kThreads);
    if (thread_ == 0) store();
    if (task_.tile_gradient == nullptr) return;
    sum_tile_columns(delta_, 16 * warp_, half_, own_.warp[half_][warp_].gradient);
    Base::sync();
    store_gradient();
  }

 private:
  using Base = OutputTile<LossFunction, 1>;
  using Base::col_;
  using Base::cost_;
  using Base::half_;
  using Base::place_;
  using Base::targets_;
  using Base::task_;
  using Base::thread_;

  /// The warp's 16 rows. Returns their costs.
  __device__ double evaluate_absent(const float (&sum)[64]) {
    typename LossFunction::Cost cost[2];
    const int mine = first_row_ + thread_ % 32 / 4;
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int row = first_row_ + 8 * upper;
      const auto shared = task_.loss_function.row(targets_, mine + 8 * upper, task_.boost_zero);
      const unsigned char* to = delta_ + tile_place(row + thread_ % 8, thread_ % 32 / 8 * 8);
      cost[upper] = evaluate_row<false>(sum + 2 * upper, shared, to);
      if (__any_sync(kAll, !cost[upper].fits()))
        cost[upper] = evaluate_row<true>(sum + 2 * upper, shared, to);
    }
    if (!LossFunction::kCostsAbsent) return 0.0;
    const float weight[2] = {targets_.weight[mine], targets_.weight[mine + 8]};
    if (weight[0] == weight[1]) {
      cost[0].combine(cost[1]);
      return double(weight[0] * task_.loss_function.scale) * double(cost[0].total());
    }
    return double(weight[0] * task_.loss_function.scale) * double(cost[0].total()) +
           double(weight[1] * task_.loss_function.scale) * double(cost[1].total());
  }
  /// The thread's 32 units of a row; the warp writes 8 rows. `to` is the lane's place in the first
  /// four octets of columns.
  template <bool kSafe>
  __device__ __forceinline__ typename LossFunction::Cost evaluate_row(
      const float* z, const typename LossFunction::Row& row, const unsigned char* to) const {
    std::uint32_t place = hopper::shared_address(to);
    if (kSafe) asm volatile("" : "+r"(place));
    typename LossFunction::Cost cost;
#pragma unroll
    for (int j = 0; j < kTile / 8; j += 4) {
      std::uint32_t pair[4];
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        float two[2] = {z[4 * (j + q)], z[4 * (j + q) + 1]};
        if (kSafe) hopper::pin(two);  // or all that both ways compute is kept for the second
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

  /// The stored targets of the warp's 16 rows: those who hold their pre-activations hand them over,
  /// so that each lane has one to evaluate.
  __device__ void evaluate_stored(const float (&sum)[64]) {
    const int row = first_row_ + thread_ % 32 / 4;
    const uint4 below = *reinterpret_cast<const uint4*>(targets_.mask[row]);
    const uint4 above = *reinterpret_cast<const uint4*>(targets_.mask[row + 8]);
    const unsigned mask[2][4] = {{below.x, below.y, below.z, below.w},
                                 {above.x, above.y, above.z, above.w}};
    unsigned any = 0;
    for (int w = 0; w < 4; ++w) any |= mask[0][w] | mask[1][w];
    if (!__any_sync(kAll, any != 0)) return;
    ListedUnits& list = own_.warp[half_][warp_].list;
    int listed = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      // Bit 8 * q + 2 * upper + c belongs to sum 16 * w + 4 * q + 2 * upper + c.
      unsigned left = (mask[0][w] >> col_ & 0x03030303u) | (mask[1][w] >> col_ & 0x03030303u) << 2;
      while (const unsigned some = __ballot_sync(kAll, left != 0)) {
        if (listed > kListed - 32) {
          evaluate_listed(listed);
          listed = 0;
        }
        if (left != 0) {
          const int bit = __ffs(int(left)) - 1;
          left &= left - 1;
          const int at = listed + __popc(some & ((1u << (thread_ % 32)) - 1));
          list.z[at] = Base::choose(sum + 16 * w, bit);
          list.place[at] =
              short(kTile * (row + (bit >> 1 & 1) * 8) + 32 * w + (bit & ~7) + col_ + (bit & 1));
        }
        listed += __popc(some);
      }
    }
    evaluate_listed(listed);
  }
  __device__ __forceinline__ void evaluate_listed(int count) {
    __syncwarp();
    for (int i = thread_ % 32; i < count; i += 32) {
      const ListedUnits& list = own_.warp[half_][warp_].list;
      const int row = list.place[i] / kTile;
      const int col = list.place[i] % kTile;
      *reinterpret_cast<__nv_bfloat16*>(delta_ + tile_place(row, col)) =
          __float2bfloat16_rn(Base::evaluate_one(list.z[i], row, col));
    }
    __syncwarp();
  }

  __device__ void store() const {
    for (int piece = 0; piece < 2; ++piece)
      hopper::store_box(task_.delta,
                        hopper::shared_address(delta_) + (2 * half_ + piece) * kPieceBytes,
                        place_.col + 64 * piece, place_.row + 64 * half_);
    hopper::commit_stores();
    if (half_ == 0 || place_.row >= task_.targets.rows || place_.col >= task_.targets.cols) return;
    double cost = 0.0;
    for (int warp = 0; warp < kWarps; ++warp) cost += own_.warp_cost[warp];
    task_.tile_cost[Index(place_.row / kTile) * task_.targets.tiles + place_.col / kTile] = cost;
  }
  __device__ void store_gradient() const {
    const Index col = place_.col + 64 * half_ + thread_;
    if (thread_ >= kTile / kPair || place_.row >= task_.targets.rows || col >= task_.targets.cols)
      return;
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += own_.warp[half_][warp].gradient[thread_];
    task_.tile_gradient[Index(place_.row / kTile) * task_.targets.cols + col] = sum;
  }

  static constexpr unsigned kAll = 0xFFFFFFFFu;
  unsigned char* delta_;
  PairMemory& own_;
  int pair_;
  int warp_;
  int first_row_;  ///< of the 16 rows that are the warp's; a thread's are number lane / 4 and 8
                   ///< more
};

template <class LossFunction>
__global__ void __cluster_dims__(Pipeline::kBlocks) __launch_bounds__(kOutputThreads<Bfloat16>, 1)
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
  launch_tiles<output_delta_kernel<LossFunction>, Bfloat16, SharedMemory>(stream, task,
                                                                          "output_delta_kernel");
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
