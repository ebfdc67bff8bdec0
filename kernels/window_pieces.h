// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/window.h"
#include "src/base/bfloat16.h"

#include <algorithm>

/// How a GPU's convolutions are cut, by their shapes alone. Plans count what that takes.
namespace norn::window_pieces {

/// Of the windows that are written out, or images that are rounded, at a time: what the
/// second-level cache holds.
inline constexpr Index kPieceBytes = Index(32) << 20;
inline constexpr Index kRun = 8;  ///< columns: rows are whole runs of 16 bytes as bfloat16
/// Bytes of a place's channels that the copy engine brings at a time.
inline constexpr Index kBoxBytes = 128;
template <typename T>
inline constexpr Index kBox = kBoxBytes / Index(sizeof(T));

inline Index round_up(Index value, Index multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
inline Index quotient_up(Index value, Index by) {
  return (value + by - 1) / by;
}

/// The columns of a window that is written out, with zeros up to a whole run, and its rows.
inline Index depth_of(const Window& window) {
  return round_up(window.taps() * window.channels, kRun);
}
/// Images of three or four channels, one behind the other, are turned and written out in words of
/// four bfloat16 a place.
inline bool writes_places(const Window& window, bool rounds) {
  return rounds && window.order == UnitOrder::file && window.places() > 1 &&
         (window.channels == 3 || window.channels == 4);
}
/// Columns of a tap of windows that are written out, and of all.
inline Index written_channels(const Window& window, bool rounds) {
  return writes_places(window, rounds) ? 4 : window.channels;
}
inline Index written_depth(const Window& window, bool rounds) {
  return round_up(window.taps() * written_channels(window, rounds), kRun);
}
/// Windows that are written out, as images of one place each.
inline Window places_of(Index windows, Index depth) {
  Window places;
  places.in[0] = places.out[0] = windows;
  places.channels = depth;
  places.order = UnitOrder::channels_last;
  return places;
}
inline Index rows_of_piece(Index depth, bool rounds) {
  constexpr Index kWhole = 32, kMost = Index(1) << 20;
  const Index rows = kPieceBytes / (depth * Index(rounds ? sizeof(Bfloat16) : sizeof(float)));
  return std::clamp(rows / kWhole * kWhole, kWhole, kMost);
}
/// Examples whose windows are gathered back at a time, whole ones.
inline Index examples_gathered(const Window& window, bool rounds) {
  return std::max<Index>(1, rows_of_piece(depth_of(window), rounds) / window.out_places());
}
/// Examples of so many units that are rounded at a time.
inline Index examples_of_piece(Index units) {
  return std::max<Index>(1, kPieceBytes / (units * Index(sizeof(Bfloat16))));
}

inline bool has_channels_last(const Window& window) {
  return window.order == UnitOrder::channels_last || window.places() == 1 || window.channels == 1;
}

/// Whether the delta of the source is a convolution, too: of the delta, with the filters mirrored.
/// The places that windows read are as many as the windows then.
inline bool has_mirror(const Window& window, Index filters) {
  constexpr Index kMost = 4;  // times as many filters as channels: a piece is larger then
  for (std::size_t a = 0; a < 3; ++a)
    if (window.stride[a] != 1 || window.out[a] != window.in[a] ||
        window.padding[a] >= window.kernel[a])
      return false;
  return has_channels_last(window) && filters <= kMost * window.channels;
}
inline Window mirror_of(const Window& window, Index filters) {
  Window mirror = window;
  for (std::size_t a = 0; a < 3; ++a) mirror.padding[a] = window.kernel[a] - 1 - window.padding[a];
  mirror.channels = filters;
  mirror.order = UnitOrder::channels_last;
  return mirror;
}

/// From the last place of an axis to where the last window begins.
inline Index upper_corner(const Window& window, std::size_t axis) {
  return (window.out[axis] - 1) * window.stride[axis] - window.padding[axis] -
         (window.in[axis] - 1);
}

/// Whether so many channels or filters are whole runs, and a good part of a tile.
inline bool fills_tiles(Index channels) {
  constexpr Index kLeast = 32;
  return channels % kRun == 0 && channels >= kLeast;
}

/// Whether products of windows with so many filters can read them where they stand, and it pays:
/// images of two axes, with borders, strides and filters that the copy engine has bits for, and
/// channels and filters that fill a good part of a tile.
inline bool can_read(const Window& window, Index filters) {
  constexpr Index kCorner = 128, kOffset = 256, kStride = 8, kPlaces = Index(1) << 20;
  if (window.in[2] != 1 || window.kernel[2] != 1 || window.out[2] != 1) return false;
  for (std::size_t a = 0; a < 2; ++a) {
    const Index upper = upper_corner(window, a);
    if (window.padding[a] > kCorner || upper < -kCorner || upper >= kCorner ||
        window.kernel[a] > kOffset || window.stride[a] > kStride || window.in[a] > kPlaces)
      return false;
  }
  return window.order == UnitOrder::channels_last && fills_tiles(window.channels) &&
         fills_tiles(filters);
}

/// Whether a device that reads windows makes the source's delta at once, by a product of the
/// delta's windows that it reads or by collecting what windows give.
inline bool can_give_back(const Window& window, Index filters) {
  return !has_mirror(window, filters) || can_read(mirror_of(window, filters), window.channels);
}

/// Columns of a tile of results: the widest that leave the least empty. Tiles of 192 hold bfloat16.
inline Index tile_columns(Index filters, bool in_bf16) {
  Index best = in_bf16 ? 192 : 128;
  for (const Index width : {128, 96, 64})
    if (round_up(filters, width) < round_up(filters, best)) best = width;
  return best;
}

/// Places along x of a block of an image that so many consecutive windows read at a tap, from where
/// any whole number of them stands in front; or 0 where they may be no block.
inline Index block_width(const Window& window, Index windows, Index examples) {
  const Index width = window.out[0], height = window.out[1];
  if (window.stride[0] != 1 || window.stride[1] != 1) return 0;
  if (width % windows == 0 || (height == 1 && examples == 1)) return windows;
  return windows % width == 0 && height % (windows / width) == 0 ? width : 0;
}

/// Columns of a tap where windows are read: the channels, and zeros up to whole boxes.
template <typename T>
Index padded_channels(const Window& window) {
  return round_up(window.channels, kBox<T>);
}

/// Those that are multiplied: whole halves of boxes.
template <typename T>
Index multiplied_channels(const Window& window) {
  return round_up(window.channels, kBox<T> / 2);
}
/// Whether no more than half of a tap's last box are channels: then the other half is not read.
template <typename T>
bool is_half_empty(const Window& window) {
  return multiplied_channels<T>(window) < padded_channels<T>(window);
}

/// Of such images whose windows stride: places of which each has `stride` of theirs along each axis
/// as channels, and the windows of them, which do not stride.
inline Window folded(const Window& window) {
  Window of;
  for (std::size_t a = 0; a < 2; ++a) {
    of.out[a] = window.out[a];
    of.kernel[a] = quotient_up(window.kernel[a], window.stride[a]);
    of.in[a] = of.out[a] + of.kernel[a] - 1;
  }
  of.channels = 4 * window.stride[0] * window.stride[1];
  of.order = UnitOrder::channels_last;
  return of;
}
/// Whether products read them so.
inline bool can_fold(const Window& window, Index filters, bool rounds) {
  return writes_places(window, rounds) && window.in[2] == 1 && window.kernel[2] == 1 &&
         window.out[2] == 1 && can_read(folded(window), filters);
}

/// Whether two of so many tiles side by side share what a gradient's have in common: a last one
/// that stands alone then is one of many.
inline bool shares_deltas(Index col_tiles) {
  constexpr Index kMany = 9;
  return col_tiles % 2 == 0 || col_tiles >= kMany;
}

/// What a gradient in bfloat16 is made of at a time: filters x columns of taps and channels. 128
/// columns are any two boxes, 96 are of one tap.
struct GradientTile {
  Index filters;
  Index columns;
};
/// That which multiplies least for padding.
inline GradientTile gradient_tile(const Window& window, Index filters) {
  if (filters <= kBox<Bfloat16>) return {kBox<Bfloat16>, 128};
  GradientTile best{128, 128};
  Index least = round_up(filters, 128) * padded_channels<Bfloat16>(window);
  for (const Index rows : {128, 192}) {
    const Index all = round_up(filters, rows) * round_up(window.channels, 96);
    if (all < least) best = {rows, 96}, least = all;
  }
  return best;
}
/// Columns of a tap in what it is summed in, and of all taps.
inline Index gradient_channels(const Window& window, Index filters) {
  return gradient_tile(window, filters).columns == 96 ? round_up(window.channels, 96)
                                                      : padded_channels<Bfloat16>(window);
}
inline Index gradient_columns(const Window& window, Index filters) {
  return window.taps() * gradient_channels(window, filters);
}
/// In how many slices of the windows it is summed then, so that its tiles fill a device: at most
/// one for each multiprocessor of an H100. There are several runs, or devices share them.
inline Index gradient_slices(const Window& window, Index filters, Index examples) {
  constexpr Index kMultiprocessors = 132, kLeastSteps = 8;
  const GradientTile tile = gradient_tile(window, filters);
  const Index tiles = quotient_up(filters, tile.filters) *
                      quotient_up(gradient_columns(window, filters), tile.columns);
  const Index steps = quotient_up(examples * window.out_places(), kBox<Bfloat16>);
  return std::clamp<Index>(kMultiprocessors / tiles, 1, std::max<Index>(1, steps / kLeastSteps));
}
/// The same of a piece of windows that are written out.
inline Index written_slices(const Window& window, Index filters) {
  const Index depth = written_depth(window, true);
  return gradient_slices(places_of(rows_of_piece(depth, true), depth), filters, 1);
}

/// Runs of so many examples whose windows are written out at a time, whole ones.
inline Index runs_written(const Window& window, Index run) {
  return rows_of_piece(written_depth(window, true), true) / (run * window.out_places());
}

/// Gradients in tf32 read turned copies of a run: a channel has a row, in which the examples of a
/// place stand together, up to whole `kTurnedRun`s, behind them those of the next place. A row of
/// places is as long as what windows reach of it, so that what lies beyond an image is zero, or in
/// front of all places, or behind them. A tap is a distance, and a multiple of 16 bytes, as the
/// copy engine asks for.
inline constexpr Index kTurnedRun = 4;
inline Index turned_examples(Index examples) {
  return round_up(examples, kTurnedRun);
}
/// Places along x, with zeros behind an image's that the next row has in front of it, too.
inline Index turned_width(const Window& window) {
  const Index reached = window.in[0] - 1 + upper_corner(window, 0) + window.kernel[0];
  return std::max({window.in[0] + window.padding[0], reached, window.out[0]});
}
inline Index turned_places(const Window& window) {
  return turned_width(window) * std::max(window.in[1], window.out[1]);
}
/// Of a row, of so many examples.
inline Index turned_length(const Window& window, Index examples) {
  return turned_places(window) * turned_examples(examples);
}
/// From a window's place to that of a tap.
inline Index turned_distance(const Window& window, Index examples, Index x, Index y) {
  return ((y - window.padding[1]) * turned_width(window) + x - window.padding[0]) *
         turned_examples(examples);
}
/// Floats of the source's and of the delta's copy.
inline Index turned_floats(const Window& window, Index filters, Index examples) {
  return turned_length(window, examples) * (window.channels + filters);
}
/// Floats of turned copies at a time.
inline constexpr Index kTurnedFloats = Index(64) << 20;

/// Whether it pays for a run of so many examples: windows that do not stride, that are not the
/// source as it stands, and that fill at least half of the copies.
inline bool can_turn(const Window& window, Index filters, Index run) {
  return can_read(window, filters) && window.stride[0] == 1 && window.stride[1] == 1 &&
         (window.taps() > 1 || window.padding[0] > 0 || window.padding[1] > 0) && run > 0 &&
         turned_length(window, run) <= 2 * window.out_places() * run &&
         turned_floats(window, filters, kTurnedRun) <= kTurnedFloats;
}
/// Examples of a run of so many that are turned at a time.
inline Index examples_turned(const Window& window, Index filters, Index run) {
  const Index whole = kTurnedFloats / turned_floats(window, filters, kTurnedRun);
  const Index parts = quotient_up(run, whole * kTurnedRun);
  return std::min(run, turned_examples(quotient_up(run, parts)));
}
/// Runs of so many examples that are turned at a time, of eight.
inline Index runs_turned(const Window& window, Index filters, Index run) {
  constexpr Index kRuns = 8;
  const Index most = std::max<Index>(1, kTurnedFloats / turned_floats(window, filters, run));
  return quotient_up(kRuns, quotient_up(kRuns, most));
}
/// Whether two tiles of filters share what they read of the source: they are whole pairs.
inline bool shares_images(Index filters) {
  constexpr Index kTile = 128;
  return quotient_up(filters, kTile) % 2 == 0;
}
/// In how many slices the gradient of what is turned of a run is summed: as few as leave no more
/// than a tenth of an H100 idle, two tiles for each multiprocessor or more.
inline Index turned_slices(const Window& window, Index filters, Index run) {
  constexpr Index kTile = 128, kMultiprocessors = 132, kLeastSteps = 8;
  const Index cols = quotient_up(window.taps() * padded_channels<float>(window), kTile);
  const bool pairs_cols = !shares_images(filters) && shares_deltas(cols);
  const Index tiles = (pairs_cols ? round_up(cols, 2) : cols) * quotient_up(filters, kTile) *
                      runs_turned(window, filters, run);
  const Index steps =
      quotient_up(turned_length(window, examples_turned(window, filters, run)), kBox<float>);
  const Index most = std::max<Index>(1, steps / kLeastSteps);
  for (Index slices = 1; slices < most; ++slices) {
    const Index waves = quotient_up(tiles * slices, kMultiprocessors);
    if (waves > 1 && 10 * tiles * slices >= 9 * waves * kMultiprocessors) return slices;
  }
  return most;
}

}  // namespace norn::window_pieces
