// SPDX-License-Identifier: Apache-2.0
// Products of windows on compute capability 9.0: tile_product.cuh multiplies, and the copying warp
// brings tiles of windows. A tile of the forward product is 128 windows x 128 filters, one of the
// gradient 128 filters x 128 columns of a slice of the windows. Sums run along taps and channels,
// or along windows, in order; nothing is split that shapes do not split.
#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/hopper/persistent.h"
#include "kernels/cuda/hopper/tensor_map.h"
#include "kernels/cuda/hopper/tile_product.cuh"
#include "kernels/cuda/hopper/window_map.h"
#include "kernels/cuda/windows/divisor.cuh"
#include "kernels/cuda/windows/window_product.h"
#include "kernels/window_pieces.h"

namespace norn::cuda {
namespace {

using hopper::Major;

constexpr int kBox = 64;  // windows or filters of a copy
static_assert(kBox == window_pieces::kBox<Bfloat16>);
constexpr int kStages = 6;       // of 32 KB
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
  WindowStarts starts;
  TapBoxes taps;
  int windows;  ///< of all examples
  WindowResult to;
  bool in_pairs;  ///< whether two columns may be written at once
  // Of gradients.
  int row_tiles;  ///< of a slice
  int filters;
};

template <class Pipeline>
struct Shared {
  unsigned char stages[Pipeline::kStagesBytes];
  typename Pipeline::Barriers barriers;
};

/// The ring as the copying warp goes through it.
template <class Pipeline>
struct Ring {
  std::uint32_t stages, full, empty;
  std::uint32_t stage = 0, parity = 1;

  __device__ explicit Ring(Shared<Pipeline>& shared)
      : stages(hopper::shared_address(shared.stages)),
        full(hopper::shared_address(shared.barriers.full)),
        empty(hopper::shared_address(shared.barriers.empty)) {}
  __device__ std::uint32_t place() const { return stages + stage * Pipeline::kStageBytes; }
  __device__ std::uint32_t barrier() const { return full + 8 * stage; }
  __device__ void wait() const { hopper::barrier_wait(empty + 8 * stage, parity); }
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

template <typename T>
struct Forward {
  static constexpr int kBlocks = kClusterRows;
  using Pipeline = TilePipeline<Major::k, Major::k, kClusterRows, 1, kStages, T>;

  /// 128 windows, and the half of the filters that this block brings to both of its cluster.
  static __device__ void produce(const Work& work, const Pipeline& pipeline, Ring<Pipeline> ring) {
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
          hopper::load_box_to(work.operands.b, ring.place() + (2 + half) * kPieceBytes,
                              ring.barrier(), step * kTileDepthOf<T>, at.col + half * kBox, 3);
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

/// kCols blocks side by side are a cluster and share deltas.
template <int kCols>
struct Gradient {
  static constexpr int kBlocks = kCols;
  using Pipeline = TilePipeline<Major::mn, Major::mn, 1, kCols, kStages>;

  static __device__ int slice(const Work& work, const TilePlace& at) {
    return at.row / kTile / work.row_tiles;
  }
  static __device__ int filter(const Work& work, const TilePlace& at) {
    return at.row - slice(work, at) * work.row_tiles * kTile;
  }
  /// 64 windows: their deltas of 128 filters, and two boxes of channels. Behind the last window
  /// deltas are zero.
  static __device__ void produce(const Work& work, const Pipeline& pipeline, Ring<Pipeline> ring) {
    const int share = kCols == 1 ? 0 : int(hopper::cluster_rank());
    for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
         tile += pipeline.stride()) {
      const TilePlace at = pipeline.place(tile);
      const int first_filter = filter(work, at);
      const int first_step = slice(work, at) * work.operands.steps;
      const TapBox tap(work.taps, at.col / kBox);
      TapBox next = tap;
      next.advance(work.taps);
      for (int step = first_step; step < first_step + work.operands.steps; ++step) {
        const int window = step * kBox;
        const WindowStarts::Place start = work.starts.at(window < work.windows ? window : 0);
        ring.wait();
        if (hopper::elected()) {
          hopper::barrier_arrive_expecting(ring.barrier(), Pipeline::kStageBytes);
#pragma unroll
          for (int piece = 0; piece < 2; ++piece) {
            const std::uint32_t to = ring.place() + piece * kPieceBytes;
            const int from = first_filter + piece * kBox;
            if (kCols == 1)
              hopper::load_box(work.operands.a, to, ring.barrier(), from, window);
            else if (piece == share)
              hopper::load_box_to(work.operands.a, to, ring.barrier(), from, window, 3);
            load_windows<Bfloat16>(work.operands.b, ring.place() + (2 + piece) * kPieceBytes,
                                   ring.barrier(), start, piece == 0 ? tap : next);
          }
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

/// Two outputs that nobody writes here.
__device__ float2 read_pair(const float* from, bool at_once) {
  if (at_once) return __ldg(reinterpret_cast<const float2*>(from));
  return make_float2(__ldg(from), __ldg(from + 1));
}

/// What becomes of two columns' sums.
__device__ Pack<float, 2> finish(const Work& work, int row, int col, Pack<float, 2> value) {
  const WindowResult& to = work.to;
  const Index at = Index(row) * to.result.stride + col;
  if (to.bias.data != nullptr) {
    value.value[0] += to.bias.data[col];
    value.value[1] += to.bias.data[col + 1];
  }
  if (to.existing == Existing::add) {
    value.value[0] += to.result.data[at];
    value.value[1] += to.result.data[at + 1];
  }
  if (to.outputs.data != nullptr) {
    const float2 y = read_pair(to.outputs.data + at, work.in_pairs);
    value.value[0] *= to.f.slope(y.x);
    value.value[1] *= to.f.slope(y.y);
  } else {
    value.value[0] = to.f.value(value.value[0]);
    value.value[1] = to.f.value(value.value[1]);
  }
  return value;
}

/// A thread writes two columns at a time, a quad of them 32 bytes.
template <class Kind>
__device__ void write(const Work& work, const TilePlace& at, const float (&sum)[2][64]) {
  const WindowResult& to = work.to;
  const int lane = int(threadIdx.x) % 32;
  const int row = Kind::first_row(work, at) + int(threadIdx.x / 32) % 4 * 16 + lane / 4;
  const int end = Kind::rows_end(work, at);
  const int first = at.col + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const int r = row + 64 * half + 8 * below;
      if (r >= end) continue;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) {
        const int col = first + 8 * j;
        if (col >= int(to.result.cols)) continue;
        const Pack<float, 2> value =
            finish(work, r, col, {sum[half][4 * j + 2 * below], sum[half][4 * j + 2 * below + 1]});
        float* const pair = to.result.row(r) + col;
        if (work.in_pairs)
          store<2>(pair, value);
        else
          pair[0] = value.value[0], pair[1] = value.value[1];
        if (to.bf16.data != nullptr) store_bf16<2, 1>(to.bf16.row(r) + col, value);
      }
    }
}

template <class Kind>
__device__ void consume(const Work& work, typename Kind::Pipeline& pipeline, int consumer) {
  std::int64_t number = 0;
  for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
       tile += pipeline.stride(), ++number) {
    if (number % kConsumers != consumer) continue;
    float sum[2][64] = {};
    pipeline.multiply(number, consumer, sum);
    pipeline.finish(sum);
    write<Kind>(work, pipeline.place(tile), sum);
  }
}

template <class Kind>
__global__ void __cluster_dims__(Kind::kBlocks) __launch_bounds__(kTileThreads, 1)
    window_product_kernel(const __grid_constant__ Work work) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Pipeline = typename Kind::Pipeline;
  extern __shared__ __align__(kSwizzleAlignment) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<Pipeline>*>(bytes);
  Pipeline pipeline(work.operands, shared.barriers, hopper::shared_address(shared.stages));
  if (threadIdx.x == 0) pipeline.init();
  __syncthreads();
  hopper::cluster_sync();
  const int group = warpgroup();
  if (group == 0) {
    hopper::give_registers<40>();
    if (threadIdx.x / 32 == 0) Kind::produce(work, pipeline, Ring<Pipeline>(shared));
  } else {
    hopper::take_registers<232>();
    const int consumer = group - 1;
    if (consumer == 1) pipeline.let_first_begin();
    consume<Kind>(work, pipeline, consumer);
  }
  hopper::cluster_sync();  // others may still copy into this block or arrive at its barriers
#endif
}

template <class Kind>
void launch(const Stream& stream, const Work& work) {
  constexpr int kBytes = int(sizeof(Shared<typename Kind::Pipeline>));
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

CUtensorMap map_filters(MatrixView<const Bfloat16> filters) {
  return map_boxes(filters);
}
CUtensorMap map_filters(MatrixView<const float> filters) {
  return map_operand_boxes(filters);
}

template <typename T>
void multiply(const Stream& stream, const Window& window, MatrixView<const T> x,
              MatrixView<const T> filters, const WindowResult& to) {
  TileOperands operands;
  operands.a = map_windows(window, x.data, x.rows, kTile);
  operands.b = map_filters(filters);
  operands.steps = int(filters.cols / kTileDepthOf<T>);
  operands.order.inner = operands.order.group = tiles_of(filters.rows, kTile);
  operands.order.outer = tiles_of(to.result.rows, kTile * kClusterRows);
  const bool in_pairs =
      is_packable<2>(to.result) && is_packable<2>(to.outputs) && is_packable<2>(to.bf16);
  launch<Forward<T>>(stream, {operands, WindowStarts(window), TapBoxes(window, kTileDepthOf<T>),
                              int(to.result.rows), to, in_pairs, 1, 0});
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
  of.bf16 = part(bf16);
  return of;
}

void multiply_windows(const Stream& stream, const Window& window, MatrixView<const Bfloat16> x,
                      MatrixView<const Bfloat16> filters, const WindowResult& result) {
  multiply(stream, window, x, filters, result);
}
void multiply_windows(const Stream& stream, const Window& window, MatrixView<const float> x,
                      MatrixView<const float> filters, const WindowResult& result) {
  multiply(stream, window, x, filters, result);
}

void multiply_window_slices(const Stream& stream, const Window& window,
                            MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x,
                            Index slices, MatrixView<float> parts) {
  TileOperands operands;
  operands.a = map_boxes(delta);
  operands.b = map_windows(window, x.data, x.rows, kBox);
  operands.steps = tiles_of(tiles_of(delta.rows, kBox), int(slices));
  const int row_tiles = tiles_of(delta.cols, kTile);
  operands.order.outer = row_tiles * int(slices);
  const auto launch_tiles = [&](auto cols) {
    operands.order.inner = operands.order.group = tiles_of(parts.cols, kTile * cols());
    launch<Gradient<cols()>>(
        stream, {operands, WindowStarts(window), TapBoxes(window, kBox), int(delta.rows),
                 WindowResult{.result = parts}, true, row_tiles, int(delta.cols)});
  };
  // Two tiles share deltas where a last one that stands alone is one of many.
  constexpr int kMany = 9;
  const int col_tiles = tiles_of(parts.cols, kTile);
  if (col_tiles % 2 == 0 || col_tiles >= kMany)
    launch_tiles(std::integral_constant<int, 2>{});
  else
    launch_tiles(std::integral_constant<int, 1>{});
}

}  // namespace norn::cuda
