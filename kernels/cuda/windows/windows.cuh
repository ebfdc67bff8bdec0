// SPDX-License-Identifier: Apache-2.0
// Windows over an example's units, as threads see them: where a window reads, and which windows
// read a unit.
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/windows/divisor.cuh"
#include "kernels/window.h"
#include "norn/tensor/views.h"

namespace norn::cuda {

inline constexpr int kWindowThreads = 256;

/// A run of places or windows along an axis.
struct Span {
  int begin = 0;
  int end = 0;
};

/// A Window in numbers of 32 bits: an example has fewer units than 2^31.
struct WindowMap {
  int in[3], out[3], kernel[3], stride[3], padding[3];
  int channels;
  int place_stride;    ///< from a unit to the next place's
  int channel_stride;  ///< from a unit to the next channel's
  Divisor by_channels, by_places, by_in[2], by_out[2], by_stride[3];

  explicit WindowMap(const Window& window)
      : channels(int(window.channels)),
        place_stride(window.order == UnitOrder::channels_last ? channels : 1),
        channel_stride(window.order == UnitOrder::channels_last ? 1 : int(window.places())),
        by_channels(window.channels),
        by_places(window.places()),
        by_in{Divisor(window.in[0]), Divisor(window.in[1])},
        by_out{Divisor(window.out[0]), Divisor(window.out[1])},
        by_stride{Divisor(window.stride[0]), Divisor(window.stride[1]), Divisor(window.stride[2])} {
    for (std::size_t a = 0; a < 3; ++a) {
      in[a] = int(window.in[a]);
      out[a] = int(window.out[a]);
      kernel[a] = int(window.kernel[a]);
      stride[a] = int(window.stride[a]);
      padding[a] = int(window.padding[a]);
    }
  }

  __device__ int windows() const { return out[0] * out[1] * out[2]; }
  /// The place that a window reads first, along an axis.
  __device__ int first(int axis, int window) const { return window * stride[axis] - padding[axis]; }
  /// What a window has of an axis.
  __device__ Span places_of(int axis, int window) const {
    const int begin = first(axis, window);
    return {max(begin, 0), min(begin + kernel[axis], in[axis])};
  }
  /// The windows that read a place of an axis.
  __device__ Span windows_of(int axis, int place) const {
    const int behind = place + padding[axis];
    const int late = behind - kernel[axis] + 1;
    return {late <= 0 ? 0 : by_stride[axis].quotient(late + stride[axis] - 1),
            min(by_stride[axis].quotient(behind) + 1, out[axis])};
  }
};

/// A unit of a source: its place along the axes and its channel.
struct UnitPlace {
  int at[3];
  int channel;
  __device__ UnitPlace(const WindowMap& map, int unit) {
    int place = unit;
    if (map.channel_stride == 1)
      place = map.by_channels.divide(channel = unit);
    else
      channel = map.by_places.divide(place);
    at[0] = place;
    at[1] = map.by_in[0].divide(at[0]);
    at[2] = map.by_in[1].divide(at[1]);
  }
};

/// A unit of a result, whose units stand channels last: its window along the axes and its channel.
struct ResultPlace {
  int at[3];
  int channel;
  __device__ ResultPlace(const WindowMap& map, int unit) : channel(unit) {
    at[0] = map.by_channels.divide(channel);
    at[1] = map.by_out[0].divide(at[0]);
    at[2] = map.by_out[1].divide(at[1]);
  }
};

/// use(window, x, y, z) of the windows that read a unit, in the order of windows.
template <typename Use>
__device__ __forceinline__ void for_windows_of(const WindowMap& map, const UnitPlace& unit,
                                               const Use& use) {
  const Span xs = map.windows_of(0, unit.at[0]), ys = map.windows_of(1, unit.at[1]),
             zs = map.windows_of(2, unit.at[2]);
  for (int z = zs.begin; z < zs.end; ++z)
    for (int y = ys.begin; y < ys.end; ++y)
      for (int x = xs.begin; x < xs.end; ++x) use((z * map.out[1] + y) * map.out[0] + x, x, y, z);
}

/// use(element of channel 0) of the units of a window, in the order (z, y, x).
template <typename Use>
__device__ __forceinline__ void for_units_of(const WindowMap& map, int wx, int wy, int wz,
                                             const Use& use) {
  const Span xs = map.places_of(0, wx), ys = map.places_of(1, wy), zs = map.places_of(2, wz);
  for (int z = zs.begin; z < zs.end; ++z)
    for (int y = ys.begin; y < ys.end; ++y)
      for (int x = xs.begin; x < xs.end; ++x)
        use(((z * map.in[1] + y) * map.in[0] + x) * map.place_stride);
}

/// at(row, column) of every element of a matrix, one a thread; neighbours have neighbouring
/// columns.
template <typename At>
__global__ void __launch_bounds__(kWindowThreads)
    cells_kernel(const At at, const Index rows, const Index cols) {
  for (Index r = blockIdx.y; r < rows; r += gridDim.y)
    for (Index c = Index(blockIdx.x) * blockDim.x + threadIdx.x; c < cols;
         c += Index(gridDim.x) * blockDim.x)
      at(r, int(c));
}

/// For rows too short for a block: the elements one behind the other.
template <typename At>
__global__ void __launch_bounds__(kWindowThreads)
    short_cells_kernel(const At at, const Index rows, const Index cols) {
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols;
       i += Index(gridDim.x) * blockDim.x)
    at(i / cols, int(i % cols));
}

template <typename At>
void for_cells(const Stream& stream, const char* name, Index rows, Index cols, const At& at) {
  if (rows == 0 || cols == 0) return;
  const Index most = Index(32) * stream.multiprocessors;
  if (cols < kWindowThreads) {
    short_cells_kernel<<<blocks_for(rows * cols, kWindowThreads, most), kWindowThreads, 0,
                         stream.stream>>>(at, rows, cols);
  } else {
    const unsigned across = blocks_for(cols, kWindowThreads, most);
    const dim3 grid(across, blocks_for(rows, 1, std::max<Index>(1, most / across)));
    cells_kernel<<<grid, kWindowThreads, 0, stream.stream>>>(at, rows, cols);
  }
  check_launch(name);
}

}  // namespace norn::cuda
