// SPDX-License-Identifier: Apache-2.0
// A thread has some channels of a window, whose units it sums in float64, or of a unit, which takes
// what its windows give in their order.
#include "kernels/cuda/windows/channel_packs.cuh"
#include "kernels/cuda/windows/mean_pooling.h"

namespace norn::cuda {
namespace {

__device__ int units_of(const WindowMap& map, int wx, int wy, int wz) {
  const Span xs = map.places_of(0, wx), ys = map.places_of(1, wy), zs = map.places_of(2, wz);
  return (xs.end - xs.begin) * (ys.end - ys.begin) * (zs.end - zs.begin);
}

struct Mean {
  template <int n>
  static __device__ Pack<float, n> of(const WindowMap& map, const Operand& x, Index e,
                                      const ResultPlace& window) {
    const int* at = window.at;
    const int from = window.channel * map.channel_stride;
    double sum[n] = {};
    for_units_of(map, at[0], at[1], at[2], [&](int unit) {
      const Pack<float, n> term = x.pack<n>(e, Index(from + unit) * n);
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] += double(term.value[i]);
    });
    const auto units = double(units_of(map, at[0], at[1], at[2]));
    Pack<float, n> mean;
#pragma unroll
    for (int i = 0; i < n; ++i) mean.value[i] = float(sum[i] / units);
    return mean;
  }
};

template <int n>
struct SpreadMeans {
  WindowMap map;
  Operand delta;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    const UnitPlace unit(map, c);
    Pack<float, n> sum = to.before<n>(e, Index(c) * n);
    for_windows_of(map, unit, [&](int window, int wx, int wy, int wz) {
      const Index at = (Index(window) * map.channels + unit.channel) * n;
      const Pack<float, n> given = delta.pack<n>(e, at);
      const auto units = float(units_of(map, wx, wy, wz));
#pragma unroll
      for (int i = 0; i < n; ++i) sum.value[i] += given.value[i] / units;
    });
    to.write<n>(e, Index(c) * n, sum);
  }
};

}  // namespace

void pool_means(const Stream& stream, const PoolingSource& source, const GivenDelta& to) {
  pool_windows<Mean>(stream, source, to);
}

void spread_means(const Stream& stream, const PoolingSource& source, const DenseOperand& delta,
                  const GivenDelta& to) {
  const Operand given(delta);
  const bool packs = has_channel_packs(source.window, {}, to) && given.is_packable<kChannelPack>();
  with_channels(packs, [&](auto channels) {
    constexpr int n = decltype(channels)::value;
    for_cells(stream, "spread over windows", to.dx.rows, to.dx.cols / n,
              SpreadMeans<n>{pack_map<n>(source.window), given, to});
  });
}

}  // namespace norn::cuda
