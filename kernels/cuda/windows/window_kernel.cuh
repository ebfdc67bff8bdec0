// SPDX-License-Identifier: Apache-2.0
// What kernels of products of windows have in common: tile_product.cuh multiplies, a Kind says how
// its copying warp brings tiles, and what becomes of them is written here.
#pragma once

#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/windows/divisor.cuh"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/cuda/windows/window_tile.cuh"
#include "kernels/window_pieces.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace norn::cuda::window_kernel {

using hopper::Major;

inline int tiles_of(Index size, int tile) {
  return int(window_pieces::quotient_up(size, tile));
}

/// Where windows begin in the images.
struct WindowStarts {
  WindowPlaces places;
  int stride[2], padding[2];

  explicit WindowStarts(const Window& window)
      : places(window),
        stride{int(window.stride[0]), int(window.stride[1])},
        padding{int(window.padding[0]), int(window.padding[1])} {}
  __device__ WindowPlaces::Place at(int window) const {
    const WindowPlaces::Place place = places.at(window);
    return {place.x * stride[0] - padding[0], place.y * stride[1] - padding[1], place.example};
  }
};

/// Boxes of channels of the taps, one behind the other.
struct TapBoxes {
  int boxes;  ///< of a tap
  int width;  ///< taps along x

  TapBoxes(const Window& window, Index channels)
      : boxes(int(window_pieces::quotient_up(window.channels, channels))),
        width(int(window.kernel[0])) {}
};
struct TapBox {
  int box, x, y;
  __device__ TapBox(const TapBoxes& all, int number)
      : box(number % all.boxes),
        x(number / all.boxes % all.width),
        y(number / all.boxes / all.width) {}
  __device__ void advance(const TapBoxes& all) {
    if (++box < all.boxes) return;
    box = 0;
    if (++x < all.width) return;
    x = 0;
    ++y;
  }
};

/// Distances in turned images, whose places stand one behind the other in a row.
struct TurnedTaps {
  int first = 0;  ///< from a window's place to that of its first tap
  int x = 0;      ///< from tap to tap along an axis
  int y = 0;
  int box = 0;  ///< channels that are copied at a time
};

struct Work {
  TileOperands operands;
  CUtensorMap needed, result;      ///< of tiles that go through shared memory
  CUtensorMap narrow_a, narrow_b;  ///< of boxes of half the channels
  WindowStarts starts;
  TapBoxes taps;
  int windows;  ///< of all examples; of gradients those of a run
  WindowResult to;
  bool in_pairs = false;  ///< whether two columns may be written at once
  // Of gradients, whose columns may be.
  int row_tiles;  ///< of a slice
  int slices;     ///< of a run
  int filters;
  int channels = 0;         ///< of the source
  bool are_blocks = false;  ///< whether windows are copied as blocks of places
  TurnedTaps turned{};
};

template <class Kind>
struct Shared {
  unsigned char stages[Kind::Pipeline::kStagesBytes];
  unsigned char tiles[kConsumers * Kind::kTileBytes];
  typename Kind::Pipeline::Barriers barriers;
  std::uint64_t loaded[kConsumers];
};

/// The ring as the copying warp goes through it.
template <class Kind>
struct Ring {
  using Pipeline = typename Kind::Pipeline;
  std::uint32_t stages, full, empty;
  std::uint32_t stage = 0, parity = 1;

  __device__ explicit Ring(Shared<Kind>& shared)
      : stages(hopper::shared_address(shared.stages)),
        full(hopper::shared_address(shared.barriers.full)),
        empty(hopper::shared_address(shared.barriers.empty)) {}
  __device__ std::uint32_t place() const { return stages + stage * Pipeline::kStageBytes; }
  __device__ std::uint32_t barrier() const { return full + 8 * stage; }
  __device__ void wait() const { hopper::barrier_wait(empty + 8 * stage, parity); }
  __device__ void advance() {
    if (++stage < Kind::kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

/// Results are floats that leave from the registers, with a bf16 copy if there is one, of 128
/// columns.
template <typename T>
struct ToFloats {
  using Element = T;
  static constexpr int kWidth = kTile;
  static constexpr bool kFromRegisters = true;
  static constexpr bool kSumsAlone = false;
  static constexpr int kTileBytes = 8;  // none is used
  static constexpr int kStages = 6;
};
/// Results are sums and nothing else.
template <typename T>
struct ToSums : ToFloats<T> {
  static constexpr bool kSumsAlone = true;
};

/// Tiles of 64 * kHalves filters, the slices of all runs one below the other. kColBlocks side by
/// side are a cluster and share deltas, or kRowBlocks one below the other that share images.
template <int kColBlocks, int kHalves, int kRowBlocks = 1>
struct SlicedTiles {
  static_assert(kColBlocks == 1 || kRowBlocks == 1);
  static constexpr int kCols = kColBlocks;
  static constexpr int kBlocks = kColBlocks * kRowBlocks;
  static constexpr int kRows = 64 * kHalves;

  /// Of all runs.
  static __device__ int slice(const Work& work, const TilePlace& at) {
    return at.row / kRows / work.row_tiles;
  }
  static __device__ int filter(const Work& work, const TilePlace& at) {
    return at.row - slice(work, at) * work.row_tiles * kRows;
  }
  static __device__ int run(const Work& work, const TilePlace& at) {
    return slice(work, at) / work.slices;
  }
  /// Of the run.
  static __device__ int first_step(const Work& work, const TilePlace& at) {
    return slice(work, at) % work.slices * work.operands.steps;
  }
  /// load(piece) of the pieces of the deltas that this block brings at a step: of an odd number the
  /// last by turns.
  template <class Load>
  static __device__ void for_own_pieces(int step, int share, const Load& load) {
#pragma unroll
    for (int piece = 0; piece < kHalves; ++piece)
      if (kCols == 1 || (kHalves % 2 == 1 && piece + 1 == kHalves ? step : piece) % 2 == share)
        load(piece);
  }
  static __device__ int first_row(const Work& work, const TilePlace& at) {
    return slice(work, at) * work.filters + filter(work, at);
  }
  static __device__ int rows_end(const Work& work, const TilePlace& at) {
    return (slice(work, at) + 1) * work.filters;
  }
};

/// use(tile, its number on this block) of the consumer's own tiles.
template <class Pipeline, class Use>
__device__ void for_own_tiles(const Work& work, const Pipeline& pipeline, int consumer,
                              const Use& use) {
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
       tile += pipeline.stride(), ++number)
    if (number % kConsumers == consumer) use(pipeline.place(tile), number);
}

template <class Kind>
__device__ void consume(const Work& work, Shared<Kind>& shared, typename Kind::Pipeline& pipeline,
                        int consumer) {
  using Sums = float[Kind::Pipeline::kTileRows / 64][Kind::Pipeline::kSums];
  if constexpr (Kind::kFromRegisters) {
    for_own_tiles(work, pipeline, consumer, [&](const TilePlace& at, std::int64_t number) {
      Sums sum = {};
      pipeline.multiply(number, consumer, sum);
      pipeline.finish(sum);
      const TilePlace to{Kind::first_row(work, at), at.col};
      if constexpr (Kind::kSumsAlone)
        write_sums(work.to.result, to, Kind::rows_end(work, at), sum);
      else
        write_floats(work.to, work.in_pairs, to, Kind::rows_end(work, at), sum);
    });
  } else {
    ResultTile<typename Kind::Stored, Kind::kWidth, Kind::kPlaced> out(
        work.to, work.starts.places, work.needed, work.result, hopper::shared_address(shared.tiles),
        hopper::shared_address(shared.loaded), consumer);
    for_own_tiles(work, pipeline, consumer, [&](const TilePlace& at, std::int64_t number) {
      Sums sum = {};
      out.load_ahead(at);
      pipeline.multiply(number, consumer, sum);
      pipeline.finish(sum);
      out.give(at, sum);
    });
    out.wait_for_memory();  // whose last tile is being read
  }
}

template <class Kind>
__global__ void __cluster_dims__(Kind::kBlocks) __launch_bounds__(kTileThreads, 1)
    window_product_kernel(const __grid_constant__ Work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Pipeline = typename Kind::Pipeline;
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<Kind>*>(bytes);
  Pipeline pipeline(work.operands, shared.barriers, hopper::shared_address(shared.stages));
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : shared.loaded)
      hopper::barrier_init(hopper::shared_address(&barrier), 1);
    pipeline.init();
  }
  __syncthreads();
  hopper::cluster_sync();
  const int group = warpgroup();
  if (group == 0) {
    hopper::give_registers<40>();
    if (threadIdx.x / 32 == 0) Kind::produce(work, pipeline, Ring<Kind>(shared));
  } else {
    hopper::take_registers<232>();
    const int consumer = group - 1;
    if (consumer == 1) pipeline.let_first_begin();
    consume<Kind>(work, shared, pipeline, consumer);
  }
  hopper::cluster_sync();  // others may still copy into this block or arrive at its barriers
#endif
}

template <class Kind>
void launch(const Stream& stream, const Work& work) {
  constexpr int kBytes = int(sizeof(Shared<Kind>));
  static const int resident =
      resident_clusters(window_product_kernel<Kind>, kTileThreads, Kind::kBlocks, kBytes);
  const std::int64_t clusters = std::min<std::int64_t>(resident, work.operands.order.count());
  window_product_kernel<Kind>
      <<<unsigned(clusters * Kind::kBlocks), kTileThreads, kBytes, stream.stream>>>(work);
  check_launch("window_product_kernel");
}

/// The slices of so many runs, in Kind's tiles. kRowBlocks of them are in a slice, or a multiple.
template <class Kind>
void launch_slices(const Stream& stream, Work& work, Index runs) {
  constexpr int kCols = Kind::Tiles::kCols;
  work.row_tiles = tiles_of(work.filters, Kind::kRows);
  work.operands.order.outer = work.row_tiles / (Kind::kBlocks / kCols) * int(work.slices * runs);
  work.operands.order.inner = work.operands.order.group =
      tiles_of(tiles_of(work.to.result.cols, Kind::Pipeline::kTileCols), kCols);
  launch<Kind>(stream, work);
}
/// The same in those of Kind<columns of a cluster> that fill best.
template <template <int> class Kind>
void launch_slices_by_columns(const Stream& stream, Work& work, Index runs) {
  if (window_pieces::shares_deltas(tiles_of(work.to.result.cols, Kind<1>::Pipeline::kTileCols)))
    launch_slices<Kind<2>>(stream, work, runs);
  else
    launch_slices<Kind<1>>(stream, work, runs);
}

}  // namespace norn::cuda::window_kernel
