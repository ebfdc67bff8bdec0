// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/window.h"
#include "src/tensor/block_partition.h"

#include <algorithm>

/// The units of a window, one after the other.
namespace norn {

/// How a window reads the channels of an example.
class WindowReader {
 public:
  explicit WindowReader(const Window& window)
      : window_(window),
        place_stride_(window.order == UnitOrder::channels_last ? window.channels : 1),
        channel_stride_(window.order == UnitOrder::channels_last ? 1 : window.places()) {}

  Index place_stride() const { return place_stride_; }
  Index channel_stride() const { return channel_stride_; }

  /// use(element of channel 0) of the units of window `number`, in the order (z, y, x).
  template <typename Use>
  void for_each_unit(Index number, const Use& use) const {
    const Range xs = along(0, number % window_.out[0]);
    const Range ys = along(1, number / window_.out[0] % window_.out[1]);
    const Range zs = along(2, number / (window_.out[0] * window_.out[1]));
    for (Index z = zs.begin; z < zs.end; ++z)
      for (Index y = ys.begin; y < ys.end; ++y)
        for (Index x = xs.begin; x < xs.end; ++x)
          use(((z * window_.in[1] + y) * window_.in[0] + x) * place_stride_);
  }

  Index units_of(Index number) const {
    const Range xs = along(0, number % window_.out[0]);
    const Range ys = along(1, number / window_.out[0] % window_.out[1]);
    const Range zs = along(2, number / (window_.out[0] * window_.out[1]));
    return (xs.end - xs.begin) * (ys.end - ys.begin) * (zs.end - zs.begin);
  }

  /// Channels one behind the other: where they stand, or copied to `copy`.
  const float* channels(const float* from, Index count, float* copy) const {
    if (channel_stride_ == 1) return from;
    for (Index c = 0; c < count; ++c) copy[c] = from[c * channel_stride_];
    return copy;
  }

 private:
  /// What a window has of an axis.
  Range along(std::size_t axis, Index number) const {
    const Index first = number * window_.stride[axis] - window_.padding[axis];
    return {std::max<Index>(first, 0), std::min(first + window_.kernel[axis], window_.in[axis])};
  }
  const Window& window_;
  Index place_stride_;
  Index channel_stride_;
};

/// Where channels [first, first + count) of an example are.
struct Channels {
  const float* example = nullptr;
  Index first = 0;
  Index count = 0;
};

}  // namespace norn
