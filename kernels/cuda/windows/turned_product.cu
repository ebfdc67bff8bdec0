// SPDX-License-Identifier: Apache-2.0
// A tile is 128 or 64 filters x 128 columns of the taps' channels, of a slice of a run. A step
// brings 32 values of the rows of deltas, and of boxes of channels those that are as far from
// them as the taps are. What lies in front of a row or behind it is zero: steps may be there.
#include "kernels/cuda/windows/turned_product.h"
#include "kernels/cuda/windows/window_kernel.cuh"

namespace norn::cuda {
namespace {

using namespace window_kernel;

constexpr int kDepth = kTileDepthOf<float>;  // places of a step
static_assert(kDepth == window_pieces::kBox<float>);
// The copy engine begins at multiples of 16 bytes along rows.
static_assert(window_pieces::kTurnedRun * sizeof(float) % 16 == 0);

template <int kCols, int kHalves, int kRowBlocks>
struct TurnedGradient : ToSums<float>, SlicedTiles<kCols, kHalves, kRowBlocks> {
  using Tiles = SlicedTiles<kCols, kHalves, kRowBlocks>;
  using Pipeline = TilePipeline<Major::k, Major::k, kRowBlocks, kCols, kStages, float, kHalves>;

  struct Place {
    int filter, run, step;
  };
  /// A step's deltas, and the boxes of channels at their taps.
  static __device__ void load_step(const Work& work, const Ring<TurnedGradient>& ring, TapBox tap,
                                   const Place& at, int share) {
    const TurnedTaps& turned = work.turned;
    const int place = at.step * kDepth;
    hopper::barrier_arrive_expecting(ring.barrier(), Pipeline::kStageBytes);
    Tiles::for_own_pieces(at.step, share, [&](int piece) {
      const std::uint32_t to = ring.place() + piece * kPieceBytes;
      const int from = at.filter + piece * 64;
      if (kCols == 1)
        hopper::load_box(work.operands.a, to, ring.barrier(), place, from, at.run);
      else
        hopper::load_box_to(work.operands.a, to, ring.barrier(), place, from, at.run, 3);
    });
    for (int row = 0; row < kTile; row += turned.box, tap.advance(work.taps)) {
      const std::uint32_t to = ring.place() + Pipeline::kOperandBytes + row * 128;
      const int from = place + turned.first + tap.y * turned.y + tap.x * turned.x;
      const int channel = tap.box * turned.box;
      if (kRowBlocks == 1)
        hopper::load_box(work.operands.b, to, ring.barrier(), from, channel, at.run);
      else if (row / 64 == share)
        hopper::load_box_to(work.operands.b, to, ring.barrier(), from, channel, at.run, 3);
    }
  }
  static __device__ void produce(const Work& work, const Pipeline& pipeline,
                                 Ring<TurnedGradient> ring) {
    const int share = Tiles::kBlocks == 1 ? 0 : int(hopper::cluster_rank());
    for (std::int64_t tile = pipeline.first(); tile < work.operands.order.count();
         tile += pipeline.stride()) {
      const TilePlace at = pipeline.place(tile);
      const int first_step = Tiles::first_step(work, at);
      Place place{Tiles::filter(work, at), Tiles::run(work, at), first_step};
      const TapBox tap(work.taps, at.col / work.turned.box);
      for (; place.step < first_step + work.operands.steps; ++place.step) {
        ring.wait();
        if (hopper::elected()) load_step(work, ring, tap, place, share);
        ring.advance();
      }
    }
  }
};

template <int kCols>
using TurnedOf64 = TurnedGradient<kCols, 1, 1>;
template <int kCols>
using TurnedOf128 = TurnedGradient<kCols, 2, 1>;

/// The most channels at a time of which a tap's columns are whole boxes; of two blocks each brings
/// whole ones.
int box_of(Index padded, bool shares_images) {
  return padded % kTile == 0 && !shares_images ? kTile : padded % 64 == 0 ? 64 : kDepth;
}

}  // namespace

void multiply_turned_slices(const Stream& stream, const Window& window, Index examples,
                            MatrixView<const float> delta, MatrixView<const float> x, Index runs,
                            Index slices, MatrixView<float> parts) {
  const Index filters = delta.rows / runs;
  const bool shares_images = window_pieces::shares_images(filters);
  const int box = box_of(window_pieces::padded_channels<float>(window), shares_images);
  const auto distance = [&](Index tap_x, Index tap_y) {
    return int(window_pieces::turned_distance(window, examples, tap_x, tap_y));
  };
  Work work{.starts = WindowStarts(window),
            .taps = TapBoxes(window, box),
            .to = {.result = parts},
            .slices = int(slices),
            .filters = int(filters),
            .turned = {.first = distance(0, 0),
                       .x = distance(1, 0) - distance(0, 0),
                       .y = distance(0, 1) - distance(0, 0),
                       .box = box}};
  work.operands.a = map_boxes_of_each(delta, filters, 64);
  work.operands.b = map_boxes_of_each(x, x.rows / runs, box);
  work.operands.steps = tiles_of(tiles_of(delta.cols, kDepth), int(slices));
  if (shares_images)
    launch_slices<TurnedGradient<1, 2, 2>>(stream, work, runs);
  else if (filters <= kTile / 2)
    launch_slices_by_columns<TurnedOf64>(stream, work, runs);
  else
    launch_slices_by_columns<TurnedOf128>(stream, work, runs);
}

}  // namespace norn::cuda
