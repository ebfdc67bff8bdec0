// SPDX-License-Identifier: Apache-2.0
// Where a unit of files stands in a row.
#pragma once

#include "kernels/window.h"

namespace norn::cuda {

/// Unit c * places + p of files stands at p * channels + c.
struct UnitOrderMap {
  int places;
  int channels;

  UnitOrderMap(const Window& window, UnitOrder order)
      : places(int(window.places())), channels(int(window.channels)) {
    if (order == UnitOrder::channels_last) return;
    places *= channels;
    channels = 1;
  }
  explicit UnitOrderMap(const Window& window) : UnitOrderMap(window, window.order) {}

  __device__ int at(int unit) const { return unit % places * channels + unit / places; }
  /// The other way round: the unit of files that stands there.
  __device__ int unit(int at) const { return at % channels * places + at / channels; }
};

}  // namespace norn::cuda
