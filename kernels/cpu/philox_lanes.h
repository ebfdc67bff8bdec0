// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/philox.h"

/// Philox for many counters at a time.
namespace norn {

inline constexpr int kPhiloxLanes = 64;

/// word[k][i] is word k of block i.
struct PhiloxBlocks {
  alignas(64) std::uint32_t word[4][kPhiloxLanes];
};

/// blocks.word[k][i] = random.block(first + i * stride, row).word[k] for i in [0, count), count <=
/// kPhiloxLanes. With AVX-512 compilers vectorise it; with less it costs what single blocks do.
inline void philox_blocks(const Philox& random, std::uint64_t first, std::uint64_t stride,
                          std::uint64_t row, int count, PhiloxBlocks& blocks) {
  for (int i = 0; i < count; ++i) {
    const Philox::Block block = random.block(first + std::uint64_t(i) * stride, row);
    for (int k = 0; k < 4; ++k) blocks.word[k][i] = block.word[k];
  }
}

}  // namespace norn
