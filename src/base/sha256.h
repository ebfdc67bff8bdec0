// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

/// SHA-256, as FIPS 180-4 has it. Norn's own: of the libraries that are linked zlib and HDF5 have
/// sums of 32 bits alone, and a cryptographic library for this one function would be one more to
/// install.
namespace norn {

/// Of bytes that come in pieces.
class Sha256 {
 public:
  void add(std::string_view bytes);
  /// Of what was added so far, in 64 hexadecimal digits.
  std::string hex() const;

 private:
  void add_block(const unsigned char* block);
  // The first 32 bits of the fractions of the square roots of the first eight primes.
  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  std::uint64_t bytes_ = 0;
};

}  // namespace norn
