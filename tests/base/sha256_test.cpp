// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the examples of FIPS 180-2, and in pieces.

#include "src/base/sha256.h"

#include <random>

#include <gtest/gtest.h>

namespace norn {
namespace {

std::string sha256(std::string_view text) {
  Sha256 sum;
  sum.add(text);
  return sum.hex();
}

TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string text(random() % 300, ' ');
    for (char& c : text) c = char(random());
    Sha256 sum;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t part = std::min<std::size_t>(1 + random() % 100, text.size() - at);
      sum.add(std::string_view(text).substr(at, part));
      at += part;
    }
    EXPECT_EQ(sum.hex(), sha256(text)) << text.size();
    EXPECT_EQ(sum.hex(), sha256(text)) << "asking changes nothing";
  }
}

}  // namespace
}  // namespace norn
