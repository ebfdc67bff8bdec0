// SPDX-License-Identifier: Apache-2.0
// A tile is 128 or 64 filters x 128 columns of the taps' channels, of a slice of a run. A step
// brings 32 places of the deltas, and the places as far from them as the taps are of boxes of
// channels. What lies in front of the first image or behind the last is zero.
#include "kernels/cuda/windows/turned_product.h"
#include "kernels/cuda/windows/window_kernel.cuh"

namespace norn::cuda {
namespace {

using namespace window_kernel;

constexpr int kDepth = kTileDepthOf<float>;  // places of a step
static_assert(kDepth == window_pieces::kBox<float>);

template <int kCols, int kHalves, int kRowBlocks>
struct TurnedGradient : ToFloats<float>, SlicedTiles<kCols, kHalves, kRowBlocks> {
  using Tiles = SlicedTiles<kCols, kHalves, kRowBlocks>;
  using Pipeline = TilePipeline<Major::k, Major::k, kRowBlocks, kCols, kStages, float, kHalves>;

  /// A step's deltas, and the boxes of channels at their taps.
  static __device__ void load_step(const Work& work, const Ring<TurnedGradient>& ring, TapBox tap,
                                   int place, int first_filter, int step, int share) {
    const FlatPlaces& flat = work.flat;
    hopper::barrier_arrive_expecting(ring.barrier(), Pipeline::kStageBytes);
    Tiles::for_own_pieces(step, share, [&](int piece) {
      const std::uint32_t to = ring.place() + piece * kPieceBytes;
      const int from = first_filter + piece * 64;
      if (kCols == 1)
        hopper::load_box(work.operands.a, to, ring.barrier(), place, from);
      else
        hopper::load_box_to(work.operands.a, to, ring.barrier(), place, from, 3);
    });
    const std::uint32_t to = ring.place() + Pipeline::kOperandBytes;
    for (int row = 0; row < kTile; row += flat.box, tap.advance(work.taps)) {
      const int at = place + flat.first + tap.y * flat.pitch + tap.x;
      if (kRowBlocks == 1)
        hopper::load_box(work.operands.b, to + row * 128, ring.barrier(), at, tap.box * flat.box);
      else if (row / 64 == share)
        hopper::load_box_to(work.operands.b, to + row * 128, ring.barrier(), at, tap.box * flat.box,
                            3);
    }
  }
  /// Behind the run's last step deltas are zero: those behind all runs.
  static __device__ void produce(const Work& work, const Pipeline& pipeline,
                                 Ring<TurnedGradient> ring) {
    const int share = Tiles::kBlocks == 1 ? 0 : int(hopper::cluster_rank());
    for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
         tile += pipeline.stride()) {
      const TilePlace at = pipeline.place(tile);
      const int first_filter = Tiles::filter(work, at);
      const int first = Tiles::run(work, at) * work.flat.run;
      const int first_step = Tiles::first_step(work, at);
      const TapBox tap(work.taps, at.col / work.flat.box);
      for (int step = first_step; step < first_step + work.operands.steps; ++step) {
        const int place = step * kDepth < work.flat.run ? first + step * kDepth : work.flat.all;
        ring.wait();
        if (hopper::elected()) load_step(work, ring, tap, place, first_filter, step, share);
        ring.advance();
      }
    }
  }
};

template <int kCols, int kHalves>
using TurnedByColumns = TurnedGradient<kCols, kHalves, 1>;

/// The most channels at a time of which a tap's columns are whole boxes; of two blocks each brings
/// whole ones.
int box_of(Index padded, bool shares_images) {
  return padded % kTile == 0 && !shares_images ? kTile : padded % 64 == 0 ? 64 : kDepth;
}

}  // namespace

void multiply_turned_slices(const Stream& stream, const Window& window,
                            MatrixView<const float> delta, MatrixView<const float> x, Index runs,
                            Index slices, MatrixView<float> parts) {
  const bool shares_images = window_pieces::shares_images(delta.rows);
  const int box = box_of(window_pieces::padded_channels<float>(window), shares_images);
  const auto pitch = int(window_pieces::turned_side(window, 0));
  Work work{.starts = WindowStarts(window),
            .taps = TapBoxes(window, box),
            .to = {.result = parts},
            .in_pairs = true,
            .slices = int(slices),
            .filters = int(delta.rows),
            .flat = {.pitch = pitch,
                     .first = -int(window.padding[1]) * pitch - int(window.padding[0]),
                     .run = int(delta.cols / runs),
                     .all = int(delta.cols),
                     .box = box}};
  work.operands.a = map_operand_boxes(delta);
  work.operands.b = map_operand_boxes(x, box);
  work.operands.steps = tiles_of(work.flat.run / kDepth, int(slices));
  if (shares_images)
    launch_slices<TurnedGradient<1, 2, 2>>(stream, work, runs);
  else
    launch_slices_by_columns<TurnedByColumns>(stream, work, runs);
}

}  // namespace norn::cuda
