// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdint>
#include <limits>

/// A score and its unit as one number, so that the better candidate has the larger key: the score's
/// bits in the order of the floats, then the complement of the unit, since ties go to the lowest.
namespace norn::cuda {

using Key = unsigned long long;

inline constexpr Key kNoKey = 0;  ///< below the key of every candidate

/// -0 becomes 0, which it equals. Units are below 2^32 - 1, as column numbers are.
__device__ inline Key key_of(float score, Index unit) {
  const std::uint32_t bits = __float_as_uint(score + 0.0f);
  const std::uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return Key(ordered) << 32 | std::uint32_t(~std::uint32_t(unit));
}

/// The score of a key; that of kNoKey is -inf, which all candidates reach.
__device__ inline float score_of(Key key) {
  if (key == kNoKey) return -std::numeric_limits<float>::infinity();
  const std::uint32_t ordered = std::uint32_t(key >> 32);
  return __uint_as_float(ordered >> 31 != 0 ? ordered & 0x7FFFFFFFu : ~ordered);
}

__device__ inline Index unit_of(Key key) {
  return Index(std::uint32_t(~std::uint32_t(key)));
}

}  // namespace norn::cuda
