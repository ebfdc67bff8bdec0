// SPDX-License-Identifier: Apache-2.0
// A thread has some channels of a window, or of a unit. Where windows overlap, the units that they
// choose are found once and kept in between; then each unit takes its windows' deltas itself, in
// the order of windows, so that nothing is added by several threads.
#include "kernels/cuda/windows/channel_packs.cuh"
#include "kernels/cuda/windows/max_pooling.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace norn::cuda {
namespace {

__device__ int tap_of(const WindowMap& map, int x, int y, int z) {
  return (z * map.kernel[1] + y) * map.kernel[0] + x;
}

/// The largest units of n channels: their values, and which of the kernel's units they are.
template <int n>
struct Largest {
  Pack<float, n> value;
  Pack<int, n> tap;

  __device__ explicit Largest(int first) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
      value.value[i] = -std::numeric_limits<float>::infinity();
      tap.value[i] = first;
    }
  }
  __device__ void meet(const Pack<float, n>& x, int at) {
#pragma unroll
    for (int i = 0; i < n; ++i)
      if (displaces(x.value[i], value.value[i])) {
        value.value[i] = x.value[i];
        tap.value[i] = at;
      }
  }
  /// In the order (z, y, x). Two neighbours are read at once.
  static __device__ Largest find(const WindowMap& map, const Operand& x, Index e,
                                 const ResultPlace& window) {
    const int* at = window.at;
    const Span xs = map.places_of(0, at[0]), ys = map.places_of(1, at[1]),
               zs = map.places_of(2, at[2]);
    const int tap = tap_of(map, -map.first(0, at[0]), -map.first(1, at[1]), -map.first(2, at[2]));
    Largest found(tap + tap_of(map, xs.begin, ys.begin, zs.begin));
    for (int pz = zs.begin; pz < zs.end; ++pz)
      for (int py = ys.begin; py < ys.end; ++py)
        for (int px = xs.begin; px < xs.end; px += 2) {
          const bool has_two = px + 1 < xs.end;
          const int unit = ((pz * map.in[1] + py) * map.in[0] + px) * map.place_stride +
                           window.channel * map.channel_stride;
          const Index both[] = {Index(unit) * n,
                                Index(unit + (has_two ? map.place_stride : 0)) * n};
          Pack<float, n> two[2];
          x.packs<n>(e, both, two);
          const int met = tap + tap_of(map, px, py, pz);
          found.meet(two[0], met);
          if (has_two) found.meet(two[1], met + 1);
        }
    return found;
  }
};

struct TheLargest {
  template <int n>
  static __device__ Pack<float, n> of(const WindowMap& map, const Operand& x, Index e,
                                      const ResultPlace& window) {
    return Largest<n>::find(map, x, e, window).value;
  }
};

/// Of windows that share no unit and leave none out: a window writes what its units get.
template <int n>
struct GiveLargest {
  WindowMap map;
  Operand x;
  Operand delta;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    const ResultPlace window(map, c);
    const int* at = window.at;
    const Pack<float, n> given = delta.pack<n>(e, Index(c) * n);
    const Largest<n> winner = Largest<n>::find(map, x, e, window);
    const int from = window.channel * map.channel_stride;
    int tap = 0;
    for_units_of(map, at[0], at[1], at[2], [&](int unit) {
      const Index place = Index(from + unit) * n;
      Pack<float, n> sum = to.before<n>(e, place);
#pragma unroll
      for (int i = 0; i < n; ++i)
        if (winner.tap.value[i] == tap) sum.value[i] += given.value[i];
      to.write<n>(e, place, sum);
      ++tap;
    });
  }
};

/// Which of the kernel's units is a window's largest.   winners [E x windows*C]
template <typename Tap, int n>
struct FindLargest {
  WindowMap map;
  Operand x;
  MatrixView<Tap> winners;
  __device__ void operator()(Index e, int c) const {
    const Largest<n> found = Largest<n>::find(map, x, e, ResultPlace(map, c));
    Pack<Tap, n> taps;
#pragma unroll
    for (int i = 0; i < n; ++i) taps.value[i] = Tap(found.tap.value[i]);
    store<n>(winners.row(e) + Index(c) * n, taps);
  }
};

template <typename Tap, int n>
struct SpreadLargest {
  WindowMap map;
  MatrixView<const Tap> winners;
  Operand delta;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    const UnitPlace unit(map, c);
    Pack<float, n> sum = to.before<n>(e, Index(c) * n);
    for_windows_of(map, unit, [&](int window, int wx, int wy, int wz) {
      const Index at = (Index(window) * map.channels + unit.channel) * n;
      const int tap = tap_of(map, unit.at[0] - map.first(0, wx), unit.at[1] - map.first(1, wy),
                             unit.at[2] - map.first(2, wz));
      const Pack<Tap, n> taps = load<n>(winners.row(e) + at);
      const Pack<float, n> given = delta.pack<n>(e, at);
#pragma unroll
      for (int i = 0; i < n; ++i)
        if (int(taps.value[i]) == tap) sum.value[i] += given.value[i];
    });
    to.write<n>(e, Index(c) * n, sum);
  }
};

/// Whether every unit is in one window.
bool divides(const Window& window) {
  for (std::size_t a = 0; a < 3; ++a)
    if (window.padding[a] != 0 || window.stride[a] != window.kernel[a] ||
        window.out[a] * window.kernel[a] != window.in[a])
      return false;
  return true;
}

template <typename Tap, int n>
void spread_over_windows(const Stream& stream, Workspace<std::byte>& kept,
                         const PoolingSource& source, const Operand& delta, const GivenDelta& to) {
  const WindowMap map = pack_map<n>(source.window);
  const Operand x(source.x);
  const Index results = delta.cols();
  const Index most = std::max<Index>(1, kKeptBytes / (results * Index(sizeof(Tap))));
  for (Index first = 0; first < delta.rows(); first += most) {
    const Index rows = std::min(most, delta.rows() - first);
    const MatrixView<Tap> winners = reserve_matrix<Tap>(kept, rows, results);
    for_cells(stream, "find the largest of windows", rows, results / n,
              FindLargest<Tap, n>{map, x.row_range(first, rows), winners});
    for_cells(stream, "spread over windows", rows, to.dx.cols / n,
              SpreadLargest<Tap, n>{map, winners, delta.row_range(first, rows),
                                    to.row_range(first, rows)});
  }
}

}  // namespace

void pool_largest(const Stream& stream, const PoolingSource& source, const GivenDelta& to) {
  pool_windows<TheLargest>(stream, source, to);
}

void spread_largest(const Stream& stream, Workspace<std::byte>& kept, const PoolingSource& source,
                    const DenseOperand& delta, const GivenDelta& to) {
  const Operand x(source.x), given(delta);
  const bool packs = has_channel_packs(source.window, x, to) && given.is_packable<kChannelPack>();
  with_channels(packs, [&](auto channels) {
    constexpr int n = decltype(channels)::value;
    if (divides(source.window))
      for_cells(stream, "give to the largest", given.rows(), given.cols() / n,
                GiveLargest<n>{pack_map<n>(source.window), x, given, to});
    else if (source.window.taps() <= 256)
      spread_over_windows<std::uint8_t, n>(stream, kept, source, given, to);
    else
      spread_over_windows<int, n>(stream, kept, source, given, to);
  });
}

}  // namespace norn::cuda
