// SPDX-License-Identifier: Apache-2.0
// The phases of a source's delta: their filters, and how places take theirs from them.
#pragma once

#include "kernels/cuda/windows/window_cells.cuh"
#include "kernels/window_phases.h"

namespace norn::cuda {

inline constexpr int kMostPhases = 16;

/// to(c, tap * padded + k) = the filters' tap that a phase's tap is, of filter k and channel c.
template <typename Element>
struct PhaseFilters {
  TapColumns columns;
  int taps[2], first[2], stride[2];  ///< of the phase, along x and y
  int width;                         ///< taps of the filters along x
  int all;                           ///< and of all
  MatrixView<const float> filters;
  MatrixView<Element> to;

  PhaseFilters(const Window& window, Index number, Index padded, MatrixView<const float> from,
               MatrixView<Element> result)
      : columns{int(from.rows), int(padded), 0},
        width(int(window.kernel[0])),
        all(int(window.taps())),
        filters(from),
        to(result) {
    const std::array<window_phases::Axis, 2> axes = window_phases::phase(window, number);
    for (std::size_t a = 0; a < 2; ++a) {
      taps[a] = int(axes[a].taps);
      first[a] = int(axes[a].first_tap);
      stride[a] = int(window.stride[a]);
    }
    columns.taps = taps[0] * taps[1];
  }
  __device__ inline void operator()(Index c, int column) const {
    put(to(c, column), columns.value(column, [&](int tap, int k) {
      const int x = first[0] + stride[0] * (taps[0] - 1 - tap % taps[0]);
      const int y = first[1] + stride[1] * (taps[1] - 1 - tap / taps[0]);
      return filters(k, c * all + y * width + x);
    }));
  }
};

/// What the products of phases gave.
struct PhaseSums {
  struct Phase {
    const float* sums;  ///< [examples * places x C], or null where no tap reads it
    int width;          ///< places along x
    int places;
  };
  Phase of[kMostPhases];
};

/// dx of n channels of a place: what its phase has of it, or nothing.
template <int n>
struct TakePhases {
  WindowMap map;
  PhaseSums phases;
  Index first_example;
  GivenDelta to;

  __device__ inline void operator()(Index row, int c) const {
    const UnitPlace unit(map, n * c);
    int x = unit.at[0], y = unit.at[1];
    const int u = map.by_stride[0].divide(x), v = map.by_stride[1].divide(y);
    const PhaseSums::Phase& phase = phases.of[y * map.stride[0] + x];
    Pack<float, n> sum{};
    if (phase.sums != nullptr) {
      const Index place = row * phase.places + Index(v) * phase.width + u;
      sum = load<n>(phase.sums + place * map.channels + unit.channel);
    }
    to.add<n>(first_example + row, Index(n) * c, sum);
  }
};

}  // namespace norn::cuda
