// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/hopper/hopper.cuh"
#include "kernels/cuda/hopper/hopper_float.cuh"
#include "kernels/cuda/hopper/hopper_narrow.cuh"
#include "kernels/cuda/hopper/hopper_wide.cuh"
#include "src/base/bfloat16.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

/// Tiles of 128 x 128, or of 64 or 192 rows, or of 64, 96 or 192 columns, of a product of bfloat16
/// matrices, or of float ones in tf32, for kernels that use up each tile where it is made. A block
/// stays on its multiprocessor and goes through many tiles: one warp copies operands into a ring of
/// stages, two consumers take turns, so that one multiplies while the other one works on its
/// finished tile. A consumer is one warpgroup, or two with a half of each tile. The blocks of a
/// cluster compute neighbouring tiles and hand each other the operands that these share.
namespace norn::cuda {

constexpr int kTile = 128;             ///< rows and columns of a tile
constexpr int kPieceBytes = 64 * 128;  ///< one copy: 64 rows of 64 values, or 32 floats
constexpr int kConsumers = 2;          ///< that multiply in turn
constexpr int kConsumerThreads = 128;  ///< of a warpgroup
constexpr int kTileThreads = 128 + kConsumers * kConsumerThreads;  ///< where a consumer is one
constexpr int kSwizzleAlignment = 1024;
constexpr int kTurnBarrier = 1;      ///< named barriers 1 and 2: whose turn it is to multiply
constexpr int kConsumerBarrier = 3;  ///< 3 and 4: the threads of one warpgroup

/// The order in which the tiles are gone through, in units of a cluster's tiles: `group` tiles
/// along one side by all tiles along the other, then the next group. What a group reads along its
/// own side should fit in L2.
struct TileOrder {
  int inner = 0;
  int outer = 0;
  int group = 1;
  int first_outer = 0;  ///< where along the other side to begin

  __host__ __device__ std::int64_t count() const { return std::int64_t(inner) * outer; }
  struct Place {
    int inner;
    int outer;
  };
  /// There are never 2^32 tiles; a warp would wait long for quotients of 64 bits.
  __device__ Place at(std::int64_t i) const {
    const unsigned in_group = unsigned(group) * unsigned(outer);
    const int first = int(unsigned(i) / in_group) * group;
    const unsigned rest = unsigned(i) % in_group;
    const unsigned width = unsigned(min(group, inner - first));
    const int along = first_outer + int(rest / width);
    return {first + int(rest % width), along < outer ? along : along - outer};
  }
};

/// Values of k in a stage.
template <typename T>
constexpr int kTileDepthOf = 128 / int(sizeof(T));
constexpr int kTileDepth = kTileDepthOf<Bfloat16>;

/// What the copying warp needs.
struct TileOperands {
  CUtensorMap a;
  CUtensorMap b;
  TileOrder order;
  bool rows_inside = false;  ///< whether `inner` of the order runs along the rows of the result
  int steps = 0;             ///< stages that a tile needs
  int half_every = 0;        ///< which stages have only half of k, in rows of 64 bytes, or 0: none
};

/// The barriers of the ring, in shared memory.
template <int kStages>
struct TileBarriers {
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

/// One tile's first row and column.
struct TilePlace {
  int row;
  int col;
};

/// The thread's warpgroup. Read from one lane, so that the compiler sees that a warp agrees on it.
__device__ inline int warpgroup() {
  return __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 128, 0);
}

/// kRows x kCols blocks are a cluster: those in a row share a, those in a column b. Of floats, k is
/// contiguous in both operands. Tiles have 64 * kHalves rows and kWidth columns; of others than 128
/// the kernel's own copying warp brings b, in pieces of 64 columns where k is not contiguous.
/// kHasHalves: whether TileOperands::half_every may say something, of operands whose k is
/// contiguous. A consumer is kWarpgroups warpgroups, each with its part of the halves.
template <hopper::Major kMajorA, hopper::Major kMajorB, int kRows, int kCols, int kStages,
          typename T = Bfloat16, int kHalves = 2, int kWidth = kTile, bool kHasHalves = false,
          int kWarpgroups = 1>
class TilePipeline {
  static_assert(kHalves % kWarpgroups == 0);
  static_assert(std::is_same_v<T, Bfloat16> ||
                (kMajorA == hopper::Major::k && kMajorB == hopper::Major::k));
  static_assert(kWidth == kTile || kWidth == 96 ||
                (kMajorB == hopper::Major::k && kMajorA == hopper::Major::k));

 public:
  static constexpr int kBlocks = kRows * kCols;
  static constexpr int kTileRows = 64 * kHalves;
  static constexpr int kTileCols = kWidth;
  static constexpr int kOperandBytes = kHalves * kPieceBytes;  ///< pieces of a
  static constexpr int kStageBytes =                           ///< and b
      kOperandBytes +
      (kMajorB == hopper::Major::k ? kWidth * 128 : (kWidth + 63) / 64 * kPieceBytes);
  static constexpr int kSums = kWidth / 2;  ///< of a thread and half
  static constexpr int kGroups = kWarpgroups;
  static constexpr int kGroupHalves = kHalves / kGroups;       ///< of a warpgroup
  static constexpr int kThreads = kGroups * kConsumerThreads;  ///< of a consumer
  static constexpr int kStagesBytes = kStages * kStageBytes;
  static constexpr int kRuns = 4;  ///< of 32 bytes of k in a stage
  /// One warpgroup multiplies in halves, so that the stage before is known to be free when half of
  /// this one is under way. Of several another one keeps tensor cores busy.
  static constexpr int kFirstRuns = kGroups == 1 ? kRuns / 2 : kRuns;
  using Barriers = TileBarriers<kStages>;

  __device__ TilePipeline(const TileOperands& operands, Barriers& barriers, std::uint32_t stages)
      : operands_(operands),
        full_(hopper::shared_address(barriers.full)),
        empty_(hopper::shared_address(barriers.empty)),
        stages_(stages),
        rank_(kBlocks == 1 ? 0 : hopper::cluster_rank()),
        group_(kGroups == 1 ? 0 : (warpgroup() + kGroups - 1) % kGroups) {}

  /// By one thread, before a cluster_sync().
  __device__ void init() const {
    constexpr int kReleases = (kRows + kCols - 1) * kThreads / 32;
    for (int s = 0; s < kStages; ++s) {
      hopper::barrier_init(full_ + 8 * s, 1);
      hopper::barrier_init(empty_ + 8 * s, kReleases);
    }
    hopper::barrier_init_done();
    hopper::prefetch_map(operands_.a);
    hopper::prefetch_map(operands_.b);
  }

  /// The tiles of this block are numbers first(), first() + stride() ... of the order.
  __device__ std::int64_t first() const { return blockIdx.x / kBlocks; }
  __device__ std::int64_t stride() const { return gridDim.x / kBlocks; }
  __device__ TilePlace place(std::int64_t tile) const {
    const TileOrder::Place at = operands_.order.at(tile);
    const int rows = operands_.rows_inside ? at.inner : at.outer;
    const int cols = operands_.rows_inside ? at.outer : at.inner;
    return {(rows * kRows + row_in_cluster()) * kTileRows,
            (cols * kCols + col_in_cluster()) * kWidth};
  }

  /// By one warp: copies the operands of all tiles.
  __device__ void produce() const {
    std::uint32_t stage = 0;
    std::uint32_t parity = 1;  // every stage is empty at first
    for (std::int64_t tile = first(); tile < operands_.order.count(); tile += stride()) {
      const TilePlace at = place(tile);
      for (int step = 0; step < operands_.steps; ++step) {
        hopper::barrier_wait(empty_ + 8 * stage, parity);
        if (hopper::elected()) load_stage(at, step, stage);
        if (++stage == kStages) {
          stage = 0;
          parity ^= 1;
        }
      }
    }
  }

  /// Before the first multiply(), by all threads of the second consumer.
  static __device__ void let_first_begin() {
    hopper::named_arrive(kTurnBarrier, kConsumers * kThreads);
  }

  /// sum += a * b for the block's `number`-th tile, by the warpgroup `consumer` whose turn it is.
  /// The last products are under way on return: finish() waits for them.
  __device__ void multiply(std::int64_t number, int consumer, float (&sum)[kGroupHalves][kSums]) {
    const std::uint64_t begin = std::uint64_t(number) * std::uint64_t(operands_.steps);
    stage_ = std::uint32_t(begin % kStages);
    std::uint32_t parity = std::uint32_t(begin / kStages) & 1;
    hopper::named_sync(kTurnBarrier + consumer, kConsumers * kThreads);
    int until_half = operands_.half_every;
    for (int step = 0;; ++step) {
      hopper::barrier_wait(full_ + 8 * stage_, parity);
      const std::uint32_t stage = stages_ + stage_ * kStageBytes;
      const bool is_half = kHasHalves && --until_half == 0;
      if (is_half)
        multiply_narrow_stage(stage, sum);
      else
        multiply_runs<0, kFirstRuns>(stage, sum);
      if (step > 0) {
        hopper::product_wait<1>();
        release(stage_ == 0 ? kStages - 1 : stage_ - 1);
      }
      if (is_half)
        until_half = operands_.half_every;
      else if constexpr (kFirstRuns < kRuns)
        multiply_runs<kFirstRuns, kRuns>(stage, sum);
      if (step + 1 == operands_.steps) break;
      if (++stage_ == kStages) {
        stage_ = 0;
        parity ^= 1;
      }
    }
    hopper::named_arrive(kTurnBarrier + 1 - consumer, kConsumers * kThreads);
  }
  __device__ void finish(float (&sum)[kGroupHalves][kSums]) {
    hopper::product_wait<0>();
#pragma unroll
    for (int half = 0; half < kGroupHalves; ++half) hopper::pin(sum[half]);
    release(stage_);
  }

 private:
  __device__ int row_in_cluster() const {
    return int(rank_) % kRows;
  }
  __device__ int col_in_cluster() const {
    return int(rank_) / kRows;
  }
  /// The blocks that have this block's a, and those that have its b.
  __device__ std::uint16_t row_mask() const {
    std::uint32_t mask = 0;
    for (int c = 0; c < kCols; ++c) mask |= 1u << (row_in_cluster() + kRows * c);
    return std::uint16_t(mask);
  }
  __device__ std::uint16_t col_mask() const {
    return std::uint16_t(((1u << kRows) - 1) << (kRows * col_in_cluster()));
  }

  __device__ void load_stage(TilePlace at, int step, std::uint32_t stage) const {
    const std::uint32_t to = stages_ + stage * kStageBytes;
    const int k = step * kTileDepthOf<T>;
    static_assert(kWidth == kTile);
    hopper::barrier_arrive_expecting(full_ + 8 * stage, kStageBytes);
    load_operand<kMajorA, kHalves, kCols>(operands_.a, to, stage, at.row, k, col_in_cluster(),
                                          row_mask());
    load_operand<kMajorB, 2, kRows>(operands_.b, to + kOperandBytes, stage, at.col, k,
                                    row_in_cluster(), col_mask());
  }

  /// All pieces of an operand, or with two blocks to share it one piece for both blocks.
  template <hopper::Major kMajor, int kPieces, int kSharers>
  __device__ void load_operand(const CUtensorMap& map, std::uint32_t to, std::uint32_t stage,
                               int first, int k, int share, std::uint16_t blocks) const {
    static_assert(kSharers == 1 || (kSharers == 2 && kPieces == 2));
    const std::uint32_t full = full_ + 8 * stage;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      const int mn = first + 64 * piece;
      const int inner = kMajor == hopper::Major::k ? k : mn;
      const int outer = kMajor == hopper::Major::k ? mn : k;
      if (kSharers == 1)
        hopper::load_box(map, to + piece * kPieceBytes, full, inner, outer);
      else if (piece == share)
        hopper::load_box_to(map, to + piece * kPieceBytes, full, inner, outer, blocks);
    }
  }

  /// Some of a stage's runs of 32 bytes of k.
  template <int kFirst, int kLast>
  __device__ void multiply_runs(std::uint32_t stage, float (&sum)[kGroupHalves][kSums]) const {
    const std::uint64_t a = hopper::operand<kMajorA>(stage + group_ * kGroupHalves * kPieceBytes);
    const std::uint64_t b = hopper::operand<kMajorB>(stage + kOperandBytes);
    hopper::product_fence();
#pragma unroll
    for (int k = kFirst; k < kLast; ++k) {
#pragma unroll
      for (int half = 0; half < kGroupHalves; ++half) {
        multiply_add(sum[half], a + half * (kPieceBytes / 16) + k * hopper::kNextK<kMajorA>,
                     b + k * hopper::kNextK<kMajorB>);
      }
    }
    hopper::product_commit();
  }

  /// All of a stage with half of k.
  __device__ void multiply_narrow_stage(std::uint32_t stage,
                                        float (&sum)[kGroupHalves][kSums]) const {
    static_assert(!kHasHalves || kGroups == 1);
    const std::uint64_t a = hopper::narrow_operand(stage);
    const std::uint64_t b = hopper::narrow_operand(stage + kOperandBytes);
    hopper::product_fence();
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int half = 0; half < kGroupHalves; ++half)
        multiply_add(sum[half], a + half * (kPieceBytes / 2 / 16) + k * 2, b + k * 2);
    hopper::product_commit();
  }

  static __device__ void multiply_add(float (&sum)[kSums], std::uint64_t a, std::uint64_t b) {
    if constexpr (std::is_same_v<T, float>) {
      if constexpr (kWidth == 64)
        hopper::multiply_add_64x64x8(sum, a, b);
      else if constexpr (kWidth == 96)
        hopper::multiply_add_64x96x8(sum, a, b);
      else
        hopper::multiply_add_64x128x8(sum, a, b);
    } else if constexpr (kWidth == 64) {
      hopper::multiply_add_64x64x16(sum, a, b);
    } else if constexpr (kWidth == 96) {
      hopper::multiply_add_64x96x16<kMajorA, kMajorB>(sum, a, b);
    } else if constexpr (kWidth == 192) {
      hopper::multiply_add_64x192x16(sum, a, b);
    } else {
      hopper::multiply_add_64x128x16<kMajorA, kMajorB>(sum, a, b);
    }
  }

  /// Tells every block that writes to this one's stage that a warp is done with it.
  __device__ void release(std::uint32_t stage) const {
    const std::uint32_t lane = threadIdx.x % 32;
    if (kBlocks == 1) {
      if (lane == 0) hopper::barrier_arrive(empty_ + 8 * stage);
    } else if (lane < kBlocks && ((row_mask() | col_mask()) >> lane & 1)) {
      hopper::barrier_arrive_at(empty_ + 8 * stage, lane);
    }
  }

  const TileOperands& operands_;
  std::uint32_t full_;
  std::uint32_t empty_;
  std::uint32_t stages_;
  std::uint32_t rank_;
  int group_;  ///< which of a consumer's the thread's warpgroup is
  std::uint32_t stage_ = 0;
};

}  // namespace norn::cuda
