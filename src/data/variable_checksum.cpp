// SPDX-License-Identifier: Apache-2.0
// Checksums of variables, piece by piece.

#include "variable_checksum.h"

#include <algorithm>

#include <zlib.h>

namespace norn {

namespace {

unsigned long go_on(unsigned long sum, std::span<const char> bytes) {
  return crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
}

}  // namespace

void WrittenChecksum::add(Index first, Index count, std::span<const char> bytes) {
  if (pieces_.empty() || pieces_.back().first + pieces_.back().count != first)
    pieces_.push_back({first, 0, 0, 0});
  Piece& piece = pieces_.back();
  piece.count += count;
  piece.bytes += bytes.size();
  piece.sum = go_on(piece.sum, bytes);
}

std::optional<Index> WrittenChecksum::fault(Index size) {
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.first < b.first; });
  Index expected = 0;
  for (const Piece& piece : pieces_) {
    if (piece.first != expected) return std::min(piece.first, expected);
    expected += piece.count;
  }
  if (expected != size) return expected;
  return std::nullopt;
}

std::uint32_t WrittenChecksum::value() const {
  unsigned long sum = 0;
  for (const Piece& piece : pieces_) sum = crc32_combine(sum, piece.sum, z_off_t(piece.bytes));
  return std::uint32_t(sum);
}

std::optional<std::uint32_t> ReadChecksum::add(Index first, Index count, Index size,
                                               std::span<const char> bytes) {
  if (first == 0) {
    next_ = 0;
    sum_ = 0;
  }
  if (first != next_) return std::nullopt;
  sum_ = go_on(sum_, bytes);
  next_ += count;
  if (next_ != size) return std::nullopt;
  return std::uint32_t(sum_);
}

}  // namespace norn
