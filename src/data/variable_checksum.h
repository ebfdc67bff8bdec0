// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// CRC-32 of a variable's elements as little-endian bytes, from the pieces in which it is written
/// or read. The attribute `crc32` holds it.
namespace norn {

inline constexpr const char* kChecksumAttribute = "crc32";

/// Of pieces in any order.
class WrittenChecksum {
 public:
  void add(Index first, Index count, std::span<const char> bytes);
  /// An element that was not written exactly once, of `size` elements.
  std::optional<Index> fault(Index size);
  /// Of the whole variable, once there is no fault.
  std::uint32_t value() const;

 private:
  struct Piece {
    Index first = 0;
    Index count = 0;
    std::size_t bytes = 0;
    unsigned long sum = 0;
  };
  std::vector<Piece> pieces_;  // those that follow each other are one
};

/// Of a variable that is read from its beginning to its end; other reads in between are passed
/// over.
class ReadChecksum {
 public:
  /// The checksum when this piece completes the variable of `size` elements.
  std::optional<std::uint32_t> add(Index first, Index count, Index size,
                                   std::span<const char> bytes);

 private:
  Index next_ = 0;
  unsigned long sum_ = 0;
};

}  // namespace norn
