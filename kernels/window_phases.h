// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/window_pieces.h"

#include <array>

/// The delta of a source whose windows stride: places that are equal modulo the stride are read by
/// the same taps, so each such phase is a convolution of the delta with them, of stride 1. No tap
/// is in two of them.
namespace norn::window_phases {

/// Phase r of an axis: places r, r + stride, ... of the source.
struct Axis {
  Index places;     ///< of the source
  Index taps;       ///< that read them
  Index first_tap;  ///< the others are `stride` apart
  Index shift;      ///< place u is read by window u + shift at the first tap, and those in front
};
inline Axis axis_of(const Window& window, std::size_t axis, Index r) {
  const Index stride = window.stride[axis], behind = r + window.padding[axis];
  const Index first = behind % stride, kernel = window.kernel[axis];
  return {window.in[axis] > r ? (window.in[axis] - r + stride - 1) / stride : 0,
          kernel > first ? (kernel - first + stride - 1) / stride : 0, first, behind / stride};
}

/// Phases of images are numbered by x, then y.
inline Index count(const Window& window) {
  return window.stride[0] * window.stride[1];
}
inline std::array<Axis, 2> phase(const Window& window, Index number) {
  return {axis_of(window, 0, number % window.stride[0]),
          axis_of(window, 1, number / window.stride[0])};
}
/// What a phase reads of the delta, taps in the order of its windows: the last one comes first.
inline Window window_of(const Window& window, Index number, Index filters) {
  Window of;
  const std::array<Axis, 2> axes = phase(window, number);
  for (std::size_t a = 0; a < 2; ++a) {
    of.in[a] = window.out[a];
    of.out[a] = axes[a].places;
    of.kernel[a] = axes[a].taps;
    of.padding[a] = axes[a].taps - 1 - axes[a].shift;
  }
  of.channels = filters;
  of.order = UnitOrder::channels_last;
  return of;
}

/// Whether products can read all phases of a source where they stand.
inline bool can_read(const Window& window, Index filters) {
  constexpr Index kMost = 16;
  if (count(window) < 2 || count(window) > kMost || window.order != UnitOrder::channels_last ||
      window.in[2] != 1 || window.kernel[2] != 1 || window.out[2] != 1)
    return false;
  for (Index number = 0; number < count(window); ++number) {
    const Window of = window_of(window, number, filters);
    if (of.out_places() > 0 && of.taps() > 0 && !window_pieces::can_read(of, window.channels))
      return false;
  }
  return true;
}

/// Whether every place has a phase that gives it something, and those of a phase stand as the copy
/// engine asks for: distances along an axis are multiples of those along the one before.
inline bool can_place(const Window& window, Index filters) {
  for (std::size_t a = 0; a < 2; ++a)
    if (window.in[a] % window.stride[a] != 0 || window.kernel[a] < window.stride[a]) return false;
  return can_read(window, filters);
}

/// Examples of so many units whose phases are made at a time.
inline Index examples_at_once(Index units) {
  constexpr Index kMost = Index(256) << 20;  // bytes
  return std::max<Index>(1, kMost / (units * Index(sizeof(float))));
}

}  // namespace norn::window_phases
