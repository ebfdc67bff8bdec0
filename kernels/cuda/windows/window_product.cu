// SPDX-License-Identifier: Apache-2.0
// Products of windows on compute capability 9.0: tile_product.cuh multiplies, and the copying warp
// brings tiles of windows. A tile of the forward product is 128 windows x 128 filters, one of the
// gradient 128 filters x 128 columns of a slice of the windows. Sums run along taps and channels,
// or along windows, in order; nothing is split that shapes do not split. Of results in bfloat16
// alone a tile has as many columns as filters fill best.
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/hopper/window_map.h"
#include "kernels/cuda/windows/divisor.cuh"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/cuda/windows/window_tile.cuh"
#include "kernels/window_pieces.h"

namespace norn::cuda {
namespace {

using hopper::Major;

constexpr int kBox = 64;  // windows or filters of a copy
static_assert(kBox == window_pieces::kBox<Bfloat16>);
constexpr int kClusterRows = 2;  // blocks that share filters

int tiles_of(Index size, int tile) {
  return int(window_pieces::quotient_up(size, tile));
}

/// Where windows begin in the images.
struct WindowStarts {
  Divisor by_windows, by_width;
  int stride[2], padding[2];

  explicit WindowStarts(const Window& window)
      : by_windows(window.out_places()),
        by_width(window.out[0]),
        stride{int(window.stride[0]), int(window.stride[1])},
        padding{int(window.padding[0]), int(window.padding[1])} {}
  struct Place {
    int x, y, example;
  };
  __device__ Place at(int window) const {
    Place place{};
    place.example = by_windows.divide(window);
    place.y = by_width.divide(window) * stride[1] - padding[1];
    place.x = window * stride[0] - padding[0];
    return place;
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

/// As many windows as the map's boxes have rows, from one on: the channels of a box at a tap.
template <typename T>
__device__ void load_windows(const CUtensorMap& map, std::uint32_t to, std::uint32_t barrier,
                             const WindowStarts::Place& start, const TapBox& tap) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(tap.box * kTileDepthOf<T>), "r"(start.x), "r"(start.y),
      "r"(start.example), "h"(std::uint16_t(tap.x)), "h"(std::uint16_t(tap.y))
      : "memory");
}

struct Work {
  TileOperands operands;
  CUtensorMap outputs, result;  ///< of results in bf16 alone
  WindowStarts starts;
  TapBoxes taps;
  int windows;  ///< of all examples; of gradients those of a run
  WindowResult to;
  bool in_pairs;  ///< whether two columns may be written at once
  // Of gradients.
  int row_tiles;  ///< of a slice
  int slices;     ///< of a run
  int filters;
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

/// Results are floats, with a bf16 copy if there is one, of 128 columns.
template <typename T>
struct ToFloats {
  using Element = T;
  static constexpr int kWidth = kTile;
  static constexpr bool kToFloats = true;
  static constexpr int kTileBytes = 8;  // none is used
  static constexpr int kStages = 6;
};
/// Results are bf16 alone, in tiles of so many columns.
template <int kColumns>
struct ToBf16 {
  using Element = Bfloat16;
  static constexpr int kWidth = kColumns;
  static constexpr bool kToFloats = false;
  static constexpr int kTileBytes = Bf16Tile<kWidth>::kBytes;
  static constexpr int kStages = kWidth == kTile ? 5 : kWidth == 96 ? 6 : 7;
};

template <class Result>
struct Forward : Result {
  using T = typename Result::Element;
  static constexpr int kBlocks = kClusterRows;
  using Pipeline =
      TilePipeline<Major::k, Major::k, kClusterRows, 1, Result::kStages, T, 2, Result::kWidth>;

  /// 128 windows, and the half of the filters that this block brings to both of its cluster.
  static __device__ void produce(const Work& work, const Pipeline& pipeline, Ring<Forward> ring) {
    constexpr int kFilters = Result::kWidth / 2;
    const int half = int(hopper::cluster_rank());
    for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
         tile += pipeline.stride()) {
      const TilePlace at = pipeline.place(tile);
      // Rows that nothing reads may be any.
      const WindowStarts::Place start = work.starts.at(at.row < work.windows ? at.row : 0);
      TapBox tap(work.taps, 0);
      for (int step = 0; step < work.operands.steps; ++step) {
        ring.wait();
        if (hopper::elected()) {
          hopper::barrier_arrive_expecting(ring.barrier(), Pipeline::kStageBytes);
          load_windows<T>(work.operands.a, ring.place(), ring.barrier(), start, tap);
          hopper::load_box_to(work.operands.b,
                              ring.place() + Pipeline::kOperandBytes + half * kFilters * 128,
                              ring.barrier(), step * kTileDepthOf<T>, at.col + half * kFilters, 3);
        }
        tap.advance(work.taps);
        ring.advance();
      }
    }
  }
  static __device__ int first_row(const Work&, const TilePlace& at) { return at.row; }
  static __device__ int rows_end(const Work& work, const TilePlace&) {
    return int(work.to.result.rows);
  }
};

/// kCols blocks side by side are a cluster and share deltas. Tiles have 64 * kHalves filters.
template <int kCols, int kHalves>
struct Gradient : ToFloats<Bfloat16> {
  static constexpr int kBlocks = kCols;
  using Pipeline = TilePipeline<Major::mn, Major::mn, 1, kCols, kStages, Bfloat16, kHalves>;
  static constexpr int kRows = Pipeline::kTileRows;

  static __device__ int slice(const Work& work, const TilePlace& at) {
    return at.row / kRows / work.row_tiles;
  }
  static __device__ int filter(const Work& work, const TilePlace& at) {
    return at.row - slice(work, at) * work.row_tiles * kRows;
  }
  /// Which block of a cluster brings a piece of the deltas.
  static __device__ int bringer(int piece, int step) { return kHalves == 1 ? step % 2 : piece; }
  /// 64 windows: their deltas of the filters, and two boxes of channels. Behind the last window
  /// deltas are zero.
  static __device__ void produce(const Work& work, const Pipeline& pipeline, Ring<Gradient> ring) {
    const int share = kCols == 1 ? 0 : int(hopper::cluster_rank());
    for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
         tile += pipeline.stride()) {
      const TilePlace at = pipeline.place(tile);
      const int first_filter = filter(work, at);
      const int run = slice(work, at) / work.slices;
      const int first_step = slice(work, at) % work.slices * work.operands.steps;
      const TapBox tap(work.taps, at.col / kBox);
      TapBox next = tap;
      next.advance(work.taps);
      for (int step = first_step; step < first_step + work.operands.steps; ++step) {
        const int window = step * kBox;
        const WindowStarts::Place start =
            work.starts.at(run * work.windows + (window < work.windows ? window : 0));
        ring.wait();
        if (hopper::elected()) {
          hopper::barrier_arrive_expecting(ring.barrier(), Pipeline::kStageBytes);
#pragma unroll
          for (int piece = 0; piece < kHalves; ++piece) {
            const std::uint32_t to = ring.place() + piece * kPieceBytes;
            const int from = first_filter + piece * kBox;
            if (kCols == 1)
              hopper::load_box(work.operands.a, to, ring.barrier(), from, window, run);
            else if (bringer(piece, step) == share)
              hopper::load_box_to(work.operands.a, to, ring.barrier(), from, window, run, 3);
          }
          const std::uint32_t to = ring.place() + Pipeline::kOperandBytes;
          load_windows<Bfloat16>(work.operands.b, to, ring.barrier(), start, tap);
          load_windows<Bfloat16>(work.operands.b, to + kPieceBytes, ring.barrier(), start, next);
        }
        ring.advance();
      }
    }
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
  if constexpr (Kind::kToFloats) {
    for_own_tiles(work, pipeline, consumer, [&](const TilePlace& at, std::int64_t number) {
      Sums sum = {};
      pipeline.multiply(number, consumer, sum);
      pipeline.finish(sum);
      write_floats(work.to, work.in_pairs, {Kind::first_row(work, at), at.col},
                   Kind::rows_end(work, at), sum);
    });
  } else {
    Bf16Tile<Kind::kWidth> out(hopper::shared_address(shared.tiles),
                               hopper::shared_address(shared.loaded), consumer);
    for_own_tiles(work, pipeline, consumer, [&](const TilePlace& at, std::int64_t number) {
      Sums sum = {};
      if (work.to.takes_slope()) out.load(work.outputs, at);
      pipeline.multiply(number, consumer, sum);
      pipeline.finish(sum);
      work.to.takes_slope() ? out.wait_for_load() : out.wait_for_memory();
      out.finish(work.to, at, sum);
      out.store(work.result, at);
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

}  // namespace

bool device_reads_windows() {
  static const bool reads = device_has_wgmma();
  return reads;
}

namespace {

CUtensorMap map_filters(MatrixView<const Bfloat16> filters, int rows) {
  return map_boxes(filters, rows, kBox);
}
CUtensorMap map_filters(MatrixView<const float> filters, int) {
  return map_operand_boxes(filters);
}

template <class Result>
void multiply(const Stream& stream, const Window& window,
              MatrixView<const typename Result::Element> x,
              MatrixView<const typename Result::Element> filters, const WindowResult& to) {
  using T = typename Result::Element;
  Work work{.starts = WindowStarts(window),
            .taps = TapBoxes(window, kTileDepthOf<T>),
            .windows = int(x.rows * window.out_places()),
            .to = to};
  work.operands.a = map_windows(window, x.data, x.rows, kTile);
  work.operands.b = map_filters(filters, Result::kWidth / 2);
  work.operands.steps = tiles_of(filters.cols, kTileDepthOf<T>);
  work.operands.order.inner = work.operands.order.group = tiles_of(filters.rows, Result::kWidth);
  work.operands.order.outer = tiles_of(work.windows, kTile * kClusterRows);
  if constexpr (Result::kToFloats) {
    work.in_pairs =
        is_packable<2>(to.result) && is_packable<2>(to.outputs) && is_packable<2>(to.bf16);
  } else {
    constexpr int kCols = Bf16Tile<Result::kWidth>::kBoxCols;
    work.result = map_boxes(to.bf16, kBox, kCols);
    if (to.takes_slope()) work.outputs = map_boxes(to.bf16_outputs, kBox, kCols);
  }
  launch<Forward<Result>>(stream, work);
}

void multiply_to_bf16(const Stream& stream, const Window& window, MatrixView<const Bfloat16> x,
                      MatrixView<const Bfloat16> filters, const WindowResult& to) {
  switch (window_pieces::tile_columns(filters.rows)) {
    case 64:
      return multiply<ToBf16<64>>(stream, window, x, filters, to);
    case 96:
      return multiply<ToBf16<96>>(stream, window, x, filters, to);
    default:
      return multiply<ToBf16<kTile>>(stream, window, x, filters, to);
  }
}

}  // namespace

WindowResult WindowResult::of_examples(Range examples, Index windows) const {
  const auto part = [&](auto matrix) {
    if (matrix.data == nullptr) return matrix;
    return matrix.row_range(examples.begin * windows, examples.count() * windows);
  };
  WindowResult of = *this;
  of.result = part(result);
  of.outputs = part(outputs);
  of.bf16_outputs = part(bf16_outputs);
  of.bf16 = part(bf16);
  of.first_row += examples.begin * windows;
  return of;
}

void multiply_windows(const Stream& stream, const Window& window, MatrixView<const Bfloat16> x,
                      MatrixView<const Bfloat16> filters, const WindowResult& result) {
  if (result.is_bf16_alone())
    multiply_to_bf16(stream, window, x, filters, result);
  else
    multiply<ToFloats<Bfloat16>>(stream, window, x, filters, result);
}
void multiply_windows(const Stream& stream, const Window& window, MatrixView<const float> x,
                      MatrixView<const float> filters, const WindowResult& result) {
  multiply<ToFloats<float>>(stream, window, x, filters, result);
}

void multiply_window_slices(const Stream& stream, const Window& window,
                            MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x,
                            Index runs, Index slices, MatrixView<float> parts) {
  Work work{.starts = WindowStarts(window),
            .taps = TapBoxes(window, kBox),
            .windows = int(delta.rows / runs),
            .to = {.result = parts},
            .in_pairs = true,
            .slices = int(slices),
            .filters = int(delta.cols)};
  work.operands.a = map_boxes_of_each(delta, work.windows);
  work.operands.b = map_windows(window, x.data, x.rows, kBox);
  work.operands.steps = tiles_of(tiles_of(work.windows, kBox), int(slices));
  const auto launch_tiles = [&](auto cols, auto halves) {
    work.row_tiles = tiles_of(delta.cols, kBox * halves());
    work.operands.order.outer = work.row_tiles * int(slices * runs);
    work.operands.order.inner = work.operands.order.group = tiles_of(parts.cols, kTile * cols());
    launch<Gradient<cols(), halves()>>(stream, work);
  };
  // Two tiles share deltas where a last one that stands alone is one of many.
  constexpr int kMany = 9;
  const int col_tiles = tiles_of(parts.cols, kTile);
  constexpr std::integral_constant<int, 1> kOne{};
  constexpr std::integral_constant<int, 2> kTwo{};
  const bool shares = col_tiles % 2 == 0 || col_tiles >= kMany;
  if (delta.cols <= kBox)
    shares ? launch_tiles(kTwo, kOne) : launch_tiles(kOne, kOne);
  else
    shares ? launch_tiles(kTwo, kTwo) : launch_tiles(kOne, kTwo);
}

}  // namespace norn::cuda
