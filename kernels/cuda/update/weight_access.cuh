// SPDX-License-Identifier: Apache-2.0
// Weights on their way between memory and registers, where they are floats.
#pragma once

#include "kernels/cuda/elements/elements.cuh"
#include "kernels/weight_view.h"

namespace norn::cuda {

/// Two floats of two words of halves, the first one's in the lower 16 bits of each.
__device__ __forceinline__ float2 join_pair(std::uint32_t high, std::uint32_t low) {
  return {__uint_as_float(FloatHalves::joined_bits(__byte_perm(low, high, 0x5410))),
          __uint_as_float(FloatHalves::joined_bits(__byte_perm(low, high, 0x7632)))};
}
__device__ __forceinline__ void split_pair(float first, float second, std::uint32_t& high,
                                           std::uint32_t& low) {
  const std::uint32_t a = __float_as_uint(first), b = __float_as_uint(second);
  high = __byte_perm(FloatHalves::rounded_bits(a), FloatHalves::rounded_bits(b), 0x7632);
  low = __byte_perm(a, b, 0x5410);
}

/// Weights that stand as floats.
struct FloatWeights {
  MatrixView<float> w;
  template <int n, int kStep>
  __device__ __forceinline__ Pack<float, n> read(Index r, Index c) const {
    return load<n, kStep>(w.row(r) + c);
  }
  template <int n, int kStep>
  __device__ __forceinline__ void write(Index r, Index c, const Pack<float, n>& pack) const {
    store<n, kStep>(w.row(r) + c, pack);
  }
};

/// Weights that stand in halves. Whole words are moved, which the compiler does not find by itself.
struct SplitWeights {
  MatrixView<Bfloat16> high;
  MatrixView<std::int16_t> low;

  template <int n, int kStep>
  __device__ __forceinline__ Pack<float, n> read(Index r, Index c) const {
    Pack<float, n> pack;
    if constexpr (kStep == 1 && n > 1) {
      const auto upper = load<n / 2>(words(high.row(r) + c));
      const auto lower = load<n / 2>(words(low.row(r) + c));
#pragma unroll
      for (int i = 0; i < n / 2; ++i) {
        const float2 pair = join_pair(upper.value[i], lower.value[i]);
        pack.value[2 * i] = pair.x;
        pack.value[2 * i + 1] = pair.y;
      }
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i)
        pack.value[i] = FloatHalves{high(r, c + i * kStep), low(r, c + i * kStep)}.joined();
    }
    return pack;
  }
  template <int n, int kStep>
  __device__ __forceinline__ void write(Index r, Index c, const Pack<float, n>& pack) const {
    if constexpr (kStep == 1 && n > 1) {
      Pack<std::uint32_t, n / 2> upper, lower;
#pragma unroll
      for (int i = 0; i < n / 2; ++i)
        split_pair(pack.value[2 * i], pack.value[2 * i + 1], upper.value[i], lower.value[i]);
      store<n / 2>(words(high.row(r) + c), upper);
      store<n / 2>(words(low.row(r) + c), lower);
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const FloatHalves halves = FloatHalves::of(pack.value[i]);
        high(r, c + i * kStep) = halves.high;
        low(r, c + i * kStep) = halves.low;
      }
    }
  }

 private:
  template <typename T>
  static __device__ std::uint32_t* words(T* halves) {
    return reinterpret_cast<std::uint32_t*>(halves);
  }
};

}  // namespace norn::cuda
