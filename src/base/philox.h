// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"

#include <array>
#include <cstdint>

/// Counter-based random numbers, the same on CPU and GPU: a value is a function of its coordinates
/// alone, so it does not matter which rank, thread or step of the loop asks for it. Philox 4x32-10:
/// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
namespace norn {

/// What a random number is for. Streams of different purposes never meet.
enum class RandomPurpose : std::uint32_t {
  weights = 1,
  dropout = 2,
  denoising = 3,
  shuffle = 4,
  split = 5,
  validation = 6,
  augmentation = 7,
  resampling = 8,
  test = 99
};

struct Philox {
  std::uint32_t key0 = 0;
  std::uint32_t key1 = 0;

  /// The stream of a seed and a purpose; `member` tells apart layers or weight matrices of one
  /// purpose.
  NORN_HD static Philox stream(std::uint64_t seed, RandomPurpose purpose,
                               std::uint32_t member = 0) {
    const std::uint64_t mixed = mix(seed ^ mix((std::uint64_t(purpose) << 32) | member));
    return {std::uint32_t(mixed), std::uint32_t(mixed >> 32)};
  }

  struct Block {
    std::uint32_t word[4];
  };

  /// Four independent 32-bit words for the counter (a, b), each 64 bits wide.
  NORN_HD Block block(std::uint64_t a, std::uint64_t b) const {
    std::uint32_t c0 = std::uint32_t(a), c1 = std::uint32_t(a >> 32), c2 = std::uint32_t(b),
                  c3 = std::uint32_t(b >> 32);
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t(0xD2511F53u) * c0;
      const std::uint64_t p1 = std::uint64_t(0xCD9E8D57u) * c2;
      c0 = std::uint32_t(p1 >> 32) ^ c1 ^ k0;
      c1 = std::uint32_t(p1);
      c2 = std::uint32_t(p0 >> 32) ^ c3 ^ k1;
      c3 = std::uint32_t(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }

  /// One 32-bit word for element `index` of row `row`: word index % 4 of block (index / 4, row).
  NORN_HD std::uint32_t word(std::uint64_t row, std::uint64_t index) const {
    return block(index >> 2, row).word[index & 3];
  }

  /// A 32-bit word as a uniform number in [0, 1), a multiple of 2^-24.
  NORN_HD static float uniform(std::uint32_t word) { return float(word >> 8) * 0x1p-24f; }

  /// One uniform number in [0, 1) for element `index` of row `row`.
  NORN_HD float uniform(std::uint64_t row, std::uint64_t index) const {
    return uniform(word(row, index));
  }

 private:
  /// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
  NORN_HD static std::uint64_t mix(std::uint64_t z) {
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
};

}  // namespace norn
