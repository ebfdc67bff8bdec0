// SPDX-License-Identifier: Apache-2.0
// Threads of poolings have some neighbouring channels of a place: eight, in accesses of 16 bytes,
// where units stand channels last and everything allows it, else one.
#pragma once

#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/cuda/windows/windows.cuh"
#include "kernels/pooling.h"

#include <type_traits>

namespace norn::cuda {

inline constexpr int kChannelPack = 8;

/// Whether the units of a source may be met in packs of channels.
inline bool has_channel_packs(const Window& window, const Operand& x, const GivenDelta& to) {
  return window.order == UnitOrder::channels_last && window.channels % kChannelPack == 0 &&
         x.is_packable<kChannelPack>() && to.is_packable<kChannelPack>();
}

/// work(n), a constant type: the channels of a thread.
template <typename Work>
void with_channels(bool has_packs, const Work& work) {
  if (has_packs)
    work(std::integral_constant<int, kChannelPack>{});
  else
    work(std::integral_constant<int, 1>{});
}

/// The map whose channels are packs of n.
template <int n>
WindowMap pack_map(Window window) {
  window.channels /= n;
  return WindowMap(window);
}

/// y = what windows give, of Kind::of<n>(map, x, example, window), or y += it.
template <typename Kind, int n>
struct PoolWindows {
  WindowMap map;
  Operand x;
  GivenDelta to;
  __device__ void operator()(Index e, int c) const {
    const Pack<float, n> value = Kind::template of<n>(map, x, e, ResultPlace(map, c));
    to.template add<n>(e, Index(c) * n, value);
  }
};

template <typename Kind>
void pool_windows(const Stream& stream, const PoolingSource& source, const GivenDelta& to) {
  with_channels(has_channel_packs(source.window, source.x, to), [&](auto channels) {
    constexpr int n = decltype(channels)::value;
    for_cells(stream, "pool windows", to.dx.rows, to.dx.cols / n,
              PoolWindows<Kind, n>{pack_map<n>(source.window), source.x, to});
  });
}

}  // namespace norn::cuda
