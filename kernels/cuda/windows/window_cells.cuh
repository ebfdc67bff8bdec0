// SPDX-License-Identifier: Apache-2.0
// What a convolution does element by element around its products: windows are written out, taken
// back, filters turned, terms added.
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/window_pieces.h"

namespace norn::cuda {

using window_pieces::kRun;

__device__ inline float value_of(float x) {
  return x;
}
__device__ inline float value_of(Bfloat16 x) {
  return x.value();
}
__device__ inline void put(float& to, float value) {
  to = value;
}
__device__ inline void put(Bfloat16& to, float value) {
  to = Bfloat16::rounded(value);
}

/// Windows [first, first + piece.rows) of the examples, as chunks of kRun columns.
template <typename Element>
struct WindowPiece {
  WindowMap map;
  MatrixView<const float> x;
  Index first_example;
  int first_window;  ///< of that example
  MatrixView<Element> piece;
  Divisor by_chunks, by_windows, by_kernel[2];

  WindowPiece(const Window& window, MatrixView<const float> source, Index first,
              MatrixView<Element> to)
      : map(window),
        x(source),
        first_example(first / window.out_places()),
        first_window(int(first % window.out_places())),
        piece(to),
        by_chunks(to.cols / kRun),
        by_windows(window.out_places()),
        by_kernel{Divisor(window.kernel[0]), Divisor(window.kernel[1])} {}
  int chunks() const { return int(piece.rows) * by_chunks.by(); }
};

__device__ inline void store_run(float* to, const float (&value)[kRun]) {
#pragma unroll
  for (int half = 0; half < kRun; half += 4)
    store<4>(to + half,
             Pack<float, 4>{value[half], value[half + 1], value[half + 2], value[half + 3]});
}
__device__ inline void store_run(Bfloat16* to, const float (&value)[kRun]) {
  Pack<float, kRun> pack;
#pragma unroll
  for (int i = 0; i < kRun; ++i) pack.value[i] = value[i];
  store_bf16<kRun, 1>(to, pack);
}

/// piece(r, tap * C + c) = what window first + r of the examples reads there, and zeros behind the
/// last tap. A thread writes a run of columns; kWhole: they are channels of one place that stand
/// together, in whole runs of 16 bytes.
template <bool kWhole, typename Element>
__global__ void __launch_bounds__(kWindowThreads)
    write_windows_kernel(const WindowPiece<Element> work) {
  const WindowMap& map = work.map;
  const int chunks = int(work.piece.rows) * work.by_chunks.by();
  for (int i = int(blockIdx.x) * kWindowThreads + int(threadIdx.x); i < chunks;
       i += int(gridDim.x) * kWindowThreads) {
    int column = i;
    const int r = work.by_chunks.divide(column);
    column *= kRun;
    int wx = work.first_window + r;
    const float* const x = work.x.row(work.first_example + work.by_windows.divide(wx));
    int wy = map.by_out[0].divide(wx);
    const int wz = map.by_out[1].divide(wy);
    int channel = column;
    int kx = map.by_channels.divide(channel);
    int ky = work.by_kernel[0].divide(kx);
    int kz = work.by_kernel[1].divide(ky);
    const int left = map.first(0, wx), top = map.first(1, wy), front = map.first(2, wz);
    const auto place = [&] {
      const int px = left + kx, py = top + ky, pz = front + kz;
      const bool is_inside = px >= 0 && px < map.in[0] && py >= 0 && py < map.in[1] && pz >= 0 &&
                             pz < map.in[2] && kz < map.kernel[2];
      return is_inside ? x + ((pz * map.in[1] + py) * map.in[0] + px) * map.place_stride : nullptr;
    };
    float value[kRun] = {};
    const float* from = place();
    if constexpr (kWhole) {
      if (from != nullptr)
#pragma unroll
        for (int half = 0; half < kRun; half += 4) {
          const Pack<float, 4> four = load<4>(from + channel + half);
#pragma unroll
          for (int j = 0; j < 4; ++j) value[half + j] = four.value[j];
        }
    } else {
#pragma unroll
      for (int j = 0; j < kRun; ++j) {
        if (from != nullptr) value[j] = from[channel * map.channel_stride];
        if (++channel < map.channels) continue;
        channel = 0;
        if (++kx == map.kernel[0]) kx = 0, ++ky;
        if (ky == map.kernel[1]) ky = 0, ++kz;
        from = place();
      }
    }
    store_run(work.piece.row(r) + column, value);
  }
}

/// images(e, place * 4 + c) = x(e, c * places + place), and zeros behind the last channel.
struct TurnImages {
  MatrixView<const float> x;
  MatrixView<Bfloat16> images;
  int places;
  int channels;
  __device__ inline void operator()(Index e, int place) const {
    Pack<float, 4> pack{};
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (c < channels) pack.value[c] = x(e, Index(c) * places + place);
    store_bf16<4, 1>(images.row(e) + Index(place) * 4, pack);
  }
};

/// Windows of such images from one on, as runs of two taps.
struct ImagePiece {
  WindowMap map;  ///< of four channels, the channel fastest
  MatrixView<const Bfloat16> images;
  int first_window;  ///< of the first image
  MatrixView<Bfloat16> piece;
  Divisor by_chunks, by_windows, by_kernel[2];

  ImagePiece(const Window& window, MatrixView<const Bfloat16> from, Index first,
             MatrixView<Bfloat16> to)
      : map(window),
        images(from),
        first_window(int(first % window.out_places())),
        piece(to),
        by_chunks(to.cols / kRun),
        by_windows(window.out_places()),
        by_kernel{Divisor(window.kernel[0]), Divisor(window.kernel[1])} {}
  int chunks() const { return int(piece.rows) * by_chunks.by(); }
};

/// piece(r, tap * 4 + c) = what window first + r of the images reads there, and zeros behind the
/// last tap.
__global__ void __launch_bounds__(kWindowThreads) write_images_kernel(const ImagePiece work) {
  const WindowMap& map = work.map;
  const int chunks = int(work.piece.rows) * work.by_chunks.by();
  for (int i = int(blockIdx.x) * kWindowThreads + int(threadIdx.x); i < chunks;
       i += int(gridDim.x) * kWindowThreads) {
    int column = i;
    const int r = work.by_chunks.divide(column);
    int wx = work.first_window + r;
    const Bfloat16* const image = work.images.row(work.by_windows.divide(wx));
    int wy = map.by_out[0].divide(wx);
    const int wz = map.by_out[1].divide(wy);
    int kx = 2 * column;
    int ky = work.by_kernel[0].divide(kx);
    int kz = work.by_kernel[1].divide(ky);
    Pack<std::uint64_t, 2> taps{};
#pragma unroll
    for (int tap = 0; tap < 2; ++tap) {
      const int px = map.first(0, wx) + kx, py = map.first(1, wy) + ky, pz = map.first(2, wz) + kz;
      if (px >= 0 && px < map.in[0] && py >= 0 && py < map.in[1] && pz >= 0 && pz < map.in[2] &&
          kz < map.kernel[2])
        taps.value[tap] = load<1>(reinterpret_cast<const std::uint64_t*>(
                                      image + ((pz * map.in[1] + py) * map.in[0] + px) * 4))
                              .value[0];
      if (++kx == map.kernel[0]) kx = 0, ++ky;
      if (ky == map.kernel[1]) ky = 0, ++kz;
    }
    store<2>(reinterpret_cast<std::uint64_t*>(work.piece.row(r) + column * kRun), taps);
  }
}

/// dx = what the windows of a piece, those of whole examples, give to n channels of a place, or
/// dx += it. Several channels of a place stand together.
template <int n>
struct GatherWindows {
  WindowMap map;
  MatrixView<const float> piece;
  Index first_example;
  GivenDelta to;
  __device__ inline void operator()(Index row, int c) const {
    const Index example = first_example + row;
    const UnitPlace unit(map, n * c);
    Pack<float, n> sum{};
    if (to.adds) sum = load<n>(to.dx.row(example) + n * c);
    for_windows_of(map, unit, [&](int window, int x, int y, int z) {
      const int kx = unit.at[0] - map.first(0, x), ky = unit.at[1] - map.first(1, y),
                kz = unit.at[2] - map.first(2, z);
      const int tap = (kz * map.kernel[1] + ky) * map.kernel[0] + kx;
      const Pack<float, n> given = load<n>(piece.row(row * map.windows() + window) +
                                           Index(tap) * map.channels + unit.channel);
#pragma unroll
      for (int i = 0; i < n; ++i) sum.value[i] += given.value[i];
    });
    to.write<n>(example, n * c, sum);
  }
};

/// How filters stand in products: a run of `padded` columns for each tap, `used` of which are not
/// zeros, and zeros behind the last tap.
struct TapColumns {
  int used;
  int padded;
  int taps;
  /// Where a column is of use, `use(tap, place in its run)`, else 0.
  template <typename Use>
  __device__ float value(int column, const Use& use) const {
    const int tap = column / padded, place = column % padded;
    return tap < taps && place < used ? use(tap, place) : 0.0f;
  }
};

/// to(k, tap * padded + c) = filters(k, c * taps + tap).
template <typename Element>
struct TurnFilters {
  TapColumns columns;
  MatrixView<const float> filters;
  MatrixView<Element> to;
  __device__ inline void operator()(Index k, int column) const {
    put(to(k, column), columns.value(column, [&](int tap, int c) {
      return filters(k, Index(c) * columns.taps + tap);
    }));
  }
};

/// to(c, tap * padded + k) = filters(k, c * taps + taps - 1 - tap): the filters that bring the
/// delta back to a source of as many places.
template <typename Element>
struct MirrorFilters {
  TapColumns columns;
  MatrixView<const float> filters;
  MatrixView<Element> to;
  __device__ inline void operator()(Index c, int column) const {
    put(to(c, column), columns.value(column, [&](int tap, int k) {
      return filters(k, (c + 1) * columns.taps - 1 - tap);
    }));
  }
};

/// scale * the sum of parts(slice * rows + row, column), in order.
__device__ inline float scale_slices(const MatrixView<const float>& parts, int slices, Index rows,
                                     float scale, Index row, int column) {
  constexpr int kInFlight = 16;
  double sum = 0.0;
  for (int first = 0; first < slices; first += kInFlight) {
    float part[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (first + i < slices) part[i] = parts((first + i) * rows + row, column);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      if (first + i < slices) sum += double(part[i]);
  }
  return float(double(scale) * sum);
}

/// term(k, c * taps + tap) of a run = scale * the sum of its parts(slice * K + k, tap * padded +
/// c).
struct AddSlices {
  TapColumns columns;
  MatrixView<const float> parts;
  int slices;  ///< of a run
  float scale;
  MatrixView<float> term;  ///< of the first run
  Index next_run;          ///< elements to that of the next

  /// Rows are those of all runs.
  __device__ inline void operator()(Index row, int column) const {
    const int filters = int(term.rows), run = int(row) / filters, k = int(row) % filters;
    const int tap = column / columns.padded, c = column % columns.padded;
    if (c >= columns.used || tap >= columns.taps) return;
    term.row(k)[run * next_run + Index(c) * columns.taps + tap] =
        scale_slices(parts, slices, filters, scale, Index(run) * slices * filters + k, column);
  }
};

struct RoundWork {
  MatrixView<const float> x;
  MatrixView<Bfloat16> rounded;
  template <int n, int kStep>
  __device__ inline void at(Index r, Index c) const {
    store_bf16<n, kStep>(rounded.row(r) + c, load<n, kStep>(x.row(r) + c));
  }
};

/// to(r, j * inner + i) = from(r, i * outer + j), or += it.
template <typename T>
struct TurnRows {
  int outer;
  int inner;
  MatrixView<const T> from;
  MatrixView<float> to;
  bool adds;
  __device__ inline void operator()(Index r, int c) const {
    const float value = value_of(from(r, Index(c % inner) * outer + c / inner));
    to(r, c) = adds ? value + to(r, c) : value;
  }
};

/// dx = given, or dx += it.
struct TakeDelta {
  MatrixView<const float> given;
  MatrixView<float> dx;
  bool adds;
  __device__ inline void operator()(Index r, int c) const {
    dx(r, c) = adds ? dx(r, c) + given(r, c) : given(r, c);
  }
};

}  // namespace norn::cuda
