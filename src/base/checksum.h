// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/portable.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

/// A checksum of memory that finds any change of one word, and of several but for one chance in
/// 2^64. It is a wrapping sum over words, so that neither order nor grouping matter.
namespace norn {

/// What one word adds. For each position different words add different numbers. The multipliers are
/// among those that Steele and Vigna, Computationally easy, spectrally good multipliers (2022),
/// found.
NORN_HD inline std::uint64_t checksum_term(std::uint32_t word, std::uint64_t position) {
  std::uint64_t x = position * 0xd1342543de82ef95ULL + word + 1;
  x ^= x >> 32;
  x *= 0xaef17502108ef2d9ULL;
  x ^= x >> 29;
  x *= 0xf1357aea2e62a9c5ULL;
  return x ^ x >> 32;
}

/// Of `bytes` bytes of main memory, the first of which are word number `position`; words that are
/// not whole are filled up with zeros.
inline std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t position = 0) {
  const auto* from = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0;
  std::uint32_t word = 0;
  const std::size_t whole = bytes / sizeof(word);
  for (std::size_t i = 0; i < whole; ++i) {
    std::memcpy(&word, from + i * sizeof(word), sizeof(word));
    sum += checksum_term(word, position + i);
  }
  const std::size_t left = bytes % sizeof(word);
  if (left == 0) return sum;
  word = 0;
  std::memcpy(&word, from + whole * sizeof(word), left);
  return sum + checksum_term(word, position + whole);
}

}  // namespace norn
