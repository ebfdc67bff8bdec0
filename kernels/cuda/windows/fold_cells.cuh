// SPDX-License-Identifier: Apache-2.0
// Images whose windows stride, folded: a place has `stride` places along each axis as its channels,
// four of each, so that windows of them stride by one.
#pragma once

#include "kernels/cuda/windows/window_cells.cuh"

namespace norn::cuda {

/// What folding does, along x and y.
struct FoldMap {
  int channels, taps;  ///< of the images, of filters
  int in[2], kernel[2], stride[2], padding[2];
  int folded_taps[2];
  Divisor by_stride[2], by_width;  ///< of folded places

  FoldMap(const Window& window, const Window& folded)
      : channels(int(window.channels)),
        taps(int(window.taps())),
        by_stride{Divisor(window.stride[0]), Divisor(window.stride[1])},
        by_width(folded.in[0]) {
    for (std::size_t a = 0; a < 2; ++a) {
      in[a] = int(window.in[a]);
      kernel[a] = int(window.kernel[a]);
      stride[a] = int(window.stride[a]);
      padding[a] = int(window.padding[a]);
      folded_taps[a] = int(folded.kernel[a]);
    }
  }
  /// Where a filter has what a folded tap's channel is, or -1.
  __device__ int weight(int tap, int channel) const {
    const int c = channel % 4, inside = channel / 4;
    const int x = tap % folded_taps[0] * stride[0] + inside % stride[0];
    const int y = tap / folded_taps[0] * stride[1] + inside / stride[0];
    return c < channels && x < kernel[0] && y < kernel[1] ? c * taps + y * kernel[0] + x : -1;
  }
};

/// folded(e, place * channels + (y * stride + x) * 4 + c) = what the image has there, or 0.
struct FoldImages {
  FoldMap map;
  MatrixView<const float> x;
  MatrixView<Bfloat16> folded;
  __device__ inline void operator()(Index e, int cell) const {
    int inside_x = cell;
    int inside_y = map.by_stride[0].divide(inside_x);
    int place_x = map.by_stride[1].divide(inside_y);
    const int place_y = map.by_width.divide(place_x);
    const int px = place_x * map.stride[0] + inside_x - map.padding[0];
    const int py = place_y * map.stride[1] + inside_y - map.padding[1];
    Pack<float, 4> pack{};
    if (px >= 0 && px < map.in[0] && py >= 0 && py < map.in[1]) {
      const Index places = Index(map.in[0]) * map.in[1];
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (c < map.channels) pack.value[c] = x(e, c * places + py * map.in[0] + px);
    }
    store_bf16<4, 1>(folded.row(e) + Index(cell) * 4, pack);
  }
};

/// to(k, tap * padded + channel) = the filter's weight there, or 0.
template <typename Element>
struct FoldFilters {
  TapColumns columns;
  FoldMap map;
  MatrixView<const float> filters;
  MatrixView<Element> to;
  __device__ inline void operator()(Index k, int column) const {
    put(to(k, column), columns.value(column, [&](int tap, int channel) {
      const int weight = map.weight(tap, channel);
      return weight < 0 ? 0.0f : filters(k, weight);
    }));
  }
};

/// term = scale * the sum of slices, which have the columns of folded filters.
struct AddFoldedSlices {
  TapColumns columns;
  FoldMap map;
  MatrixView<const float> parts;
  int slices;
  float scale;
  MatrixView<float> term;
  __device__ inline void operator()(Index k, int column) const {
    const int tap = column / columns.padded, channel = column % columns.padded;
    if (tap >= columns.taps || channel >= columns.used) return;
    const int weight = map.weight(tap, channel);
    if (weight < 0) return;
    term(k, weight) = scale_slices(parts, slices, term.rows, scale, k, column);
  }
};

}  // namespace norn::cuda
