// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/check.h"
#include "kernels/math.h"
#include "kernels/pooling.h"

#include <limits>

namespace norn::cuda {

/// Local response normalisation of one channel of a place.
struct Response {
  int channels;
  int in_front;
  int behind;
  float k, alpha, beta;

  Response(const LocalResponseNormalization& lrn, Index channels)
      : channels(int(channels)),
        in_front((lrn.n - 1) / 2),
        behind(lrn.n - 1 - in_front),
        k(lrn.k),
        alpha(float(double(lrn.alpha) / lrn.n)),
        beta(lrn.beta) {}

  /// value(i) of channels c - before to c + after, in order.
  template <typename Value>
  __device__ float sum(int c, int before, int after, const Value& value) const {
    float all = 0.0f;
    for (int i = max(0, c - before); i <= min(channels - 1, c + after); ++i) all += value(i);
    return all;
  }
  struct Factor {
    float sum;
    float power;
  };
  /// x(i) is the place's channel i.
  template <typename X>
  __device__ Factor factor(int c, const X& x) const {
    return factor_of(sum(c, in_front, behind, [&](int i) { return x(i) * x(i); }));
  }
  __device__ Factor factor_of(float squares) const {
    const float bounded = math::max(std::numeric_limits<float>::min(), k + alpha * squares);
    return {bounded, math::exp(-beta * math::log(bounded))};
  }
  /// The share of a channel in the deltas of those that it is summed with: delta x factor / sum.
  static __device__ float share(float delta, float x, const Factor& factor) {
    return delta * x * factor.power / factor.sum;
  }
  /// The delta of a channel from its own one, scaled by its factor, and these shares.
  template <typename Share>
  __device__ float delta(int c, float scaled, float x, const Share& share) const {
    return delta_of(scaled, x, sum(c, behind, in_front, share));
  }
  __device__ float delta_of(float scaled, float x, float shares) const {
    return scaled - 2.0f * beta * alpha * x * shares;
  }
};

}  // namespace norn::cuda
