// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/philox_lanes.h"
#include "kernels/dropout_mask.h"

#include <algorithm>

/// Dropout of one row.
namespace norn {

/// mask_row() where rows are places.
inline void mask_place(const DropoutMask& mask, Index r, Index count, const float* y, float* out) {
  for (Index c = 0; c < count; ++c) out[c] = mask.value(mask.chance_of_place(r, c), y[c]);
}

/// Row r of a matrix with `count` columns, from y to out: they may be the same memory, every
/// element is read before it is written.
inline void mask_row(const DropoutMask& mask, Index r, Index count, const float* y, float* out) {
  if (mask.places > 1) return mask_place(mask, r, count, y, out);
  const float p = mask.p, a = mask.a, b = mask.b, left_out = mask.left_out;
  const auto row = std::uint64_t(mask.first_row + r);
  PhiloxBlocks blocks;
  float u[4 * kPhiloxLanes];
  // Units are drawn in blocks of four, which need not begin with the first unit asked for.
  for (Index unit = mask.first_unit / 4 * 4; unit < mask.first_unit + count;) {
    const Index wanted = (mask.first_unit + count - unit + 3) / 4;
    const int drawn = int(std::min<Index>(wanted, kPhiloxLanes));
    philox_blocks(mask.random, std::uint64_t(unit) >> 2, 1, row, drawn, blocks);
    for (int i = 0; i < drawn; ++i)
      for (int k = 0; k < 4; ++k) u[4 * i + k] = Philox::uniform(blocks.word[k][i]);
    const Index begin = std::max(unit, mask.first_unit);
    const Index end = std::min<Index>(unit + 4 * drawn, mask.first_unit + count);
    const float* from = y + (begin - mask.first_unit);
    float* to = out + (begin - mask.first_unit);
    const float* chance = u + (begin - unit);
#pragma GCC ivdep
    for (Index j = 0; j < end - begin; ++j) to[j] = a * (chance[j] >= p ? from[j] : left_out) + b;
    unit += 4 * drawn;
  }
}

}  // namespace norn
