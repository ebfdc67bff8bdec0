// SPDX-License-Identifier: Apache-2.0
// Products of windows on compute capability 9.0: tile_product.cuh multiplies, and the copying warp
// brings tiles of windows. A tile of the forward product is 128 windows x 128 filters, one of the
// gradient up to 192 filters x 128 or 96 columns of a slice of the windows. Sums run along taps and
// channels, or along windows, in order; nothing is split that shapes do not split. A tile that goes
// through shared memory has as many columns as filters fill best.
#include "kernels/cuda/hopper/window_map.h"
#include "kernels/cuda/windows/window_kernel.cuh"

namespace norn::cuda {
namespace {

using namespace window_kernel;

constexpr int kBox = 64;  // windows or filters of a copy
static_assert(kBox == window_pieces::kBox<Bfloat16>);
constexpr int kClusterRows = 2;           // blocks that share filters
constexpr int kSharedBytes = 226 * 1024;  // of a block, without barriers

/// As many windows as the map's boxes have rows, from one on: a box of channels at a tap.
__device__ void load_windows(const Work& work, const CUtensorMap& map, std::uint32_t to,
                             std::uint32_t barrier, const WindowPlaces::Place& start,
                             const TapBox& tap, int channel) {
  if (work.are_blocks)
    hopper::load_block(map, to, barrier, channel, start.x + tap.x, start.y + tap.y, start.example);
  else
    hopper::load_places(map, to, barrier, channel, start.x, start.y, start.example, tap.x, tap.y);
}

/// The maps of such boxes, of all or half of their channels.
template <typename T>
CUtensorMap map_source(const Work& work, const Window& window, const T* x, Index examples, int rows,
                       bool are_half = false) {
  constexpr Index kChannels = window_pieces::kBox<T>;
  if (work.are_blocks)
    return map_blocks(window, x, examples, rows, are_half ? kChannels / 2 : kChannels);
  return are_half ? map_half_windows(window, x, examples, rows)
                  : map_windows(window, x, examples, rows);
}

/// Operands are T, results S in tiles of so many columns that go through shared memory. kAtPlaces:
/// to ResultPlaces.
template <typename T, typename S, int kColumns, bool kAtPlaces = false>
struct ToTiles {
  using Element = T;
  using Stored = S;
  static constexpr int kWidth = kColumns;
  static constexpr bool kFromRegisters = false;
  static constexpr bool kPlaced = kAtPlaces;
  static constexpr int kTileBytes = ResultTile<Stored, kWidth, kPlaced>::kBytes;
  static constexpr int kStages = (kSharedBytes - kConsumers * kTileBytes) / (kTile + kWidth) / 128;
};

template <class Result>
struct Forward : Result {
  using T = typename Result::Element;
  static constexpr int kBlocks = kClusterRows;
  using Pipeline = TilePipeline<Major::k, Major::k, kClusterRows, 1, Result::kStages, T, 2,
                                Result::kWidth, true>;

  /// 128 windows, and the half of the filters that this block brings to both of its cluster.
  static __device__ void produce(const Work& work, const Pipeline& pipeline, Ring<Forward> ring) {
    constexpr int kFilters = Result::kWidth / 2;
    const int half = int(hopper::cluster_rank());
    for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
         tile += pipeline.stride()) {
      const TilePlace at = pipeline.place(tile);
      // Rows that nothing reads may be any.
      const WindowPlaces::Place start = work.starts.at(at.row < work.windows ? at.row : 0);
      TapBox tap(work.taps, 0);
      for (int step = 0; step < work.operands.steps; ++step) {
        ring.wait();
        const bool is_half = tap.box + 1 == work.operands.half_every;
        if (hopper::elected()) {
          const int row = is_half ? 64 : 128;  // bytes
          hopper::barrier_arrive_expecting(
              ring.barrier(), is_half ? Pipeline::kStageBytes / 2 : Pipeline::kStageBytes);
          load_windows(work, is_half ? work.narrow_a : work.operands.a, ring.place(),
                       ring.barrier(), start, tap, tap.box * kTileDepthOf<T>);
          hopper::load_box_to(is_half ? work.narrow_b : work.operands.b,
                              ring.place() + Pipeline::kOperandBytes + half * kFilters * row,
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

/// Tiles of kColumns columns: two boxes of channels, which may be of two taps, or of 96 of one tap
/// that begin at multiples of 96.
template <int kCols, int kHalves, int kColumns = kTile>
struct Gradient : ToSums<Bfloat16>, SlicedTiles<kCols, kHalves> {
  static constexpr int kStages = kHalves == 3 ? 5 : 6;
  using Tiles = SlicedTiles<kCols, kHalves>;
  using Pipeline =
      TilePipeline<Major::mn, Major::mn, 1, kCols, kStages, Bfloat16, kHalves, kColumns>;
  static constexpr bool kOfOneTap = kColumns != kTile;
  static constexpr int kChannels = kOfOneTap ? kColumns : kBox;  ///< from place to place of a tap

  /// 64 windows: their deltas of the filters, and two boxes of channels, but for one that has none.
  /// Behind the last window deltas are zero.
  static __device__ void produce(const Work& work, const Pipeline& pipeline, Ring<Gradient> ring) {
    const int share = kCols == 1 ? 0 : int(hopper::cluster_rank());
    for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
         tile += pipeline.stride()) {
      const TilePlace at = pipeline.place(tile);
      const int first_filter = Tiles::filter(work, at);
      const int run = Tiles::run(work, at);
      const int first_step = Tiles::first_step(work, at);
      const TapBox tap(work.taps, at.col / kChannels);
      TapBox next = tap;
      if (!kOfOneTap) next.advance(work.taps);
      const int channel = tap.box * kChannels;
      const int next_channel = kOfOneTap ? channel + kBox : next.box * kBox;
      const bool has_next = !kOfOneTap || next_channel < work.channels;
      for (int step = first_step; step < first_step + work.operands.steps; ++step) {
        const int window = step * kBox;
        const WindowPlaces::Place start =
            work.starts.at(run * work.windows + (window < work.windows ? window : 0));
        ring.wait();
        if (hopper::elected()) {
          hopper::barrier_arrive_expecting(
              ring.barrier(),
              has_next ? Pipeline::kStageBytes : Pipeline::kStageBytes - kPieceBytes);
          Tiles::for_own_pieces(step, share, [&](int piece) {
            const std::uint32_t to = ring.place() + piece * kPieceBytes;
            const int from = first_filter + piece * kBox;
            if (kCols == 1)
              hopper::load_box(work.operands.a, to, ring.barrier(), from, window, run);
            else
              hopper::load_box_to(work.operands.a, to, ring.barrier(), from, window, run, 3);
          });
          const std::uint32_t to = ring.place() + Pipeline::kOperandBytes;
          load_windows(work, work.operands.b, to, ring.barrier(), start, tap, channel);
          if (has_next)
            load_windows(work, work.operands.b, to + kPieceBytes, ring.barrier(), start, next,
                         next_channel);
        }
        ring.advance();
      }
    }
  }
};

template <int kCols>
using GradientOf64 = Gradient<kCols, 1>;
template <int kCols>
using GradientOf128 = Gradient<kCols, 2>;
template <int kCols>
using GradientOf128By96 = Gradient<kCols, 2, 96>;
template <int kCols>
using GradientOf192By96 = Gradient<kCols, 3, 96>;

}  // namespace

bool device_reads_windows() {
  static const bool reads = device_has_wgmma();
  return reads;
}

namespace {

CUtensorMap map_filters(MatrixView<const Bfloat16> filters, int rows) {
  return map_boxes(filters, rows, kBox);
}
CUtensorMap map_filters(MatrixView<const float> filters, int rows) {
  return map_operand_boxes(filters, rows);
}
CUtensorMap map_tile_boxes(MatrixView<const Bfloat16> matrix, int cols) {
  return map_boxes(matrix, kBox, cols);
}
CUtensorMap map_tile_boxes(MatrixView<const float> matrix, int) {
  return map_result_boxes(matrix);
}

CUtensorMap map_rows_at(MatrixView<const Bfloat16> rows, const ResultPlaces& places, int cols) {
  return map_places(
      rows.data,
      {rows.cols, places.width, places.height, rows.rows / (places.width * places.height), places.x,
       places.y, places.example},
      cols);
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
  work.are_blocks = window_pieces::block_width(window, kTile, x.rows) > 0;
  work.operands.a = map_source(work, window, x.data, x.rows, kTile);
  work.operands.b = map_filters(filters, Result::kWidth / 2);
  work.operands.steps = tiles_of(filters.cols, kTileDepthOf<T>);
  if (window_pieces::is_half_empty<T>(window)) {
    work.operands.half_every = work.taps.boxes;
    work.narrow_a = map_source(work, window, x.data, x.rows, kTile, true);
    work.narrow_b = map_half_boxes(filters, Result::kWidth / 2);
  }
  work.operands.order.inner = work.operands.order.group = tiles_of(filters.rows, Result::kWidth);
  work.operands.order.outer = tiles_of(work.windows, kTile * kClusterRows);
  if constexpr (Result::kFromRegisters) {
    work.in_pairs =
        is_packable<2>(to.result) && is_packable<2>(to.outputs) && is_packable<2>(to.bf16);
  } else {
    using Stored = typename Result::Stored;
    constexpr int kCols = ResultTile<Stored, Result::kWidth, Result::kPlaced>::kBoxCols;
    const auto map = [&](MatrixView<const Stored> rows) {
      if constexpr (Result::kPlaced)
        return map_rows_at(rows, to.places, kCols);
      else
        return map_tile_boxes(rows, kCols);
    };
    work.result = map(result_of<Stored>(to));
    if (needs<Stored>(to)) work.needed = map(needed_of<Stored>(to));
  }
  launch<Forward<Result>>(stream, work);
}

/// Whether floats go through shared memory: alone, where the copy engine reads and writes all.
bool floats_fit_tiles(const WindowResult& to) {
  return to.bf16.data == nullptr && can_map(to.result) &&
         (to.outputs.data == nullptr ||
          (to.existing == Existing::overwrite && can_map(to.outputs)));
}

template <typename Stored, bool kPlaced = false, typename T>
void multiply_to_tiles(const Stream& stream, const Window& window, MatrixView<const T> x,
                       MatrixView<const T> filters, const WindowResult& to) {
  constexpr bool kInBf16 = std::is_same_v<Stored, Bfloat16>;
  switch (window_pieces::tile_columns(filters.rows, kInBf16)) {
    case 64:
      return multiply<ToTiles<T, Stored, 64, kPlaced>>(stream, window, x, filters, to);
    case 96:
      return multiply<ToTiles<T, Stored, 96, kPlaced>>(stream, window, x, filters, to);
    case 192:
      return multiply<ToTiles<T, Stored, kInBf16 ? 192 : kTile, kPlaced>>(stream, window, x,
                                                                          filters, to);
    default:
      return multiply<ToTiles<T, Stored, kTile, kPlaced>>(stream, window, x, filters, to);
  }
}

template <typename T>
void multiply_to_floats(const Stream& stream, const Window& window, MatrixView<const T> x,
                        MatrixView<const T> filters, const WindowResult& to) {
  if (floats_fit_tiles(to))
    multiply_to_tiles<float>(stream, window, x, filters, to);
  else
    multiply<ToFloats<T>>(stream, window, x, filters, to);
}

}  // namespace

WindowResult WindowResult::of_examples(Range examples, Index windows) const {
  const auto part = [&](auto matrix) {
    if (matrix.data == nullptr) return matrix;
    if (places.width > 0)
      return decltype(matrix){matrix.data + examples.begin * places.example,
                              examples.count() * windows, matrix.cols, matrix.stride};
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
  if (result.places.width > 0)
    multiply_to_tiles<Bfloat16, true>(stream, window, x, filters, result);
  else if (result.is_bf16_alone())
    multiply_to_tiles<Bfloat16>(stream, window, x, filters, result);
  else
    multiply_to_floats(stream, window, x, filters, result);
}
void multiply_windows(const Stream& stream, const Window& window, MatrixView<const float> x,
                      MatrixView<const float> filters, const WindowResult& result) {
  multiply_to_floats(stream, window, x, filters, result);
}

void multiply_window_slices(const Stream& stream, const Window& window,
                            MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x,
                            Index runs, Index slices, MatrixView<float> parts) {
  const window_pieces::GradientTile tile = window_pieces::gradient_tile(window, delta.cols);
  const bool of_one_tap = tile.columns == 96;
  Work work{.starts = WindowStarts(window),
            .taps = TapBoxes(window, of_one_tap ? tile.columns : kBox),
            .windows = int(delta.rows / runs),
            .to = {.result = parts},
            .slices = int(slices),
            .filters = int(delta.cols),
            .channels = int(window.channels)};
  work.operands.a = map_boxes_of_each(delta, work.windows);
  work.are_blocks = window_pieces::block_width(window, kBox, x.rows) > 0;
  work.operands.b = map_source(work, window, x.data, x.rows, kBox);
  work.operands.steps = tiles_of(tiles_of(work.windows, kBox), int(slices));
  if (of_one_tap && tile.filters == 192)
    launch_slices_by_columns<GradientOf192By96>(stream, work, runs);
  else if (of_one_tap)
    launch_slices_by_columns<GradientOf128By96>(stream, work, runs);
  else if (tile.filters == 64)
    launch_slices_by_columns<GradientOf64>(stream, work, runs);
  else
    launch_slices_by_columns<GradientOf128>(stream, work, runs);
}

}  // namespace norn::cuda
