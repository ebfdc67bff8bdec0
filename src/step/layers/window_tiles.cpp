// SPDX-License-Identifier: Apache-2.0
// The speeds of narrow tiles are those that docs/developer/lab/gpu_step.md has of an H200.
#include "src/step/layers/window_tiles.h"

#include "kernels/window_phases.h"
#include "kernels/window_pieces.h"

#include <algorithm>

namespace norn::step {
namespace {

using namespace window_pieces;

constexpr Index kChannels = kBox<Bfloat16>;

// Columns of filters at the speed of full tiles.
double columns_of(Index filters, bool rounds) {
  constexpr double kOf96 = 0.72, kOf64 = 0.55;
  const Index width = tile_columns(filters, rounds);
  return double(round_up(filters, width)) / (width == 64 ? kOf64 : width == 96 ? kOf96 : 1.0);
}

// What is computed for a window, of operands that are rounded to bfloat16 or are floats. Of floats
// that are written out nothing but what is of use.
double product_of(const Window& window, Index filters, bool rounds) {
  if (can_fold(window, filters, rounds)) return product_of(folded(window), filters, rounds);
  if (can_read(window, filters)) {
    const Index channels =
        rounds ? multiplied_channels<Bfloat16>(window) : multiplied_channels<float>(window);
    return double(window.taps() * channels) * columns_of(filters, rounds);
  }
  if (!rounds) return double(window.taps() * window.channels * filters);
  return double(round_up(written_depth(window, true), kChannels)) * columns_of(filters, true);
}

double input_delta_of(const Window& window, Index filters, bool rounds) {
  if (has_mirror(window, filters))
    return product_of(mirror_of(window, filters), window.channels, rounds);
  if (!rounds && !window_phases::can_read(window, filters))
    return double(window.taps() * window.channels * filters);
  double all = 0.0;  // of all places, for each window
  for (Index number = 0; number < window_phases::count(window); ++number) {
    const Window of = window_phases::window_of(window, number, filters);
    if (of.taps() > 0) all += double(of.out_places()) * product_of(of, window.channels, rounds);
  }
  return all / double(window.out_places());
}

double gradient_of(const Window& window, Index filters) {
  constexpr double kSpeed = 0.88, kOf64 = 0.8;
  if (can_fold(window, filters, true)) return gradient_of(folded(window), filters);
  const Window of = can_read(window, filters) ? window : places_of(1, written_depth(window, true));
  const GradientTile tile = gradient_tile(of, filters);
  const double rows = double(round_up(filters, tile.filters));
  return double(round_up(gradient_columns(of, filters), tile.columns)) *
         (tile.filters == kChannels ? rows / kOf64 : rows) / kSpeed;
}

}  // namespace

double tiles_filled(const StepFacts& facts, int edge, WindowProduct product) {
  const Index filters = facts.channels(facts.edge(edge).destination);
  const bool rounds = facts.device().computes_in_bf16;
  const bool in_tf32 =
      facts.device().precision.transposes_operands() && product != WindowProduct::gradient;
  if ((!rounds && !in_tf32) || !fills_tiles(filters)) return 1.0;
  const Window window = facts.window(edge);
  const double used = double(window.taps() * window.channels) * double(filters);
  switch (product) {
    case WindowProduct::outputs:
      return used / product_of(window, filters, rounds);
    case WindowProduct::input_delta:
      return used / input_delta_of(window, filters, rounds);
    default:
      return used / gradient_of(window, filters);
  }
}

}  // namespace norn::step
