// SPDX-License-Identifier: Apache-2.0
// SHA-256 as FIPS 180-4 has it.
#include "src/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

namespace norn {
namespace {

// The first 32 bits of the fractions of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const unsigned char* bytes) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return __builtin_bswap32(word);
}

}  // namespace

void Sha256::add_block(const unsigned char* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t one = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t two = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < added.size(); ++i) state_[i] += added[i];
}

void Sha256::add(std::string_view bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  std::size_t left = bytes.size();
  std::size_t held = std::size_t(bytes_ % block_.size());
  bytes_ += left;
  if (held > 0) {
    const std::size_t part = std::min(left, block_.size() - held);
    std::copy_n(at, part, block_.data() + held);
    at += part;
    left -= part;
    if (held + part < block_.size()) return;
    add_block(block_.data());
  }
  for (; left >= block_.size(); at += block_.size(), left -= block_.size()) add_block(at);
  std::copy_n(at, left, block_.data());
}

std::string Sha256::hex() const {
  Sha256 last = *this;
  const std::uint64_t bits = bytes_ * 8;
  std::string end = "\x80";
  end.append((block_.size() * 2 - 9 - std::size_t(bytes_ % block_.size())) % block_.size(), '\0');
  for (int shift = 56; shift >= 0; shift -= 8) end.push_back(char(bits >> shift));
  last.add(end);
  std::string text;
  for (const std::uint32_t word : last.state_) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace norn
