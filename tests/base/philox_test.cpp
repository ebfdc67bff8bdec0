// SPDX-License-Identifier: Apache-2.0
// Random numbers: the published values of Philox4x32-10, and streams that look uniform and apart.

#include "src/base/philox.h"

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

using Words = std::array<std::uint32_t, 4>;

/// block(a, b) takes the counter's four words as two numbers, low word first.
Words philox(const Words& counter, std::uint32_t key0, std::uint32_t key1) {
  const Philox::Block block = Philox{key0, key1}.block(
      std::uint64_t(counter[1]) << 32 | counter[0], std::uint64_t(counter[3]) << 32 | counter[2]);
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

TEST(Philox, GivesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WordOfAnElementIsAPieceOfItsBlock) {
  const Philox random = Philox::stream(17, RandomPurpose::test);
  for (std::uint64_t index : {0ull, 1ull, 2ull, 3ull, 4ull, 7ull, 1ull << 40}) {
    EXPECT_EQ(random.word(5, index), random.block(index / 4, 5).word[index % 4]);
  }
}

TEST(Philox, UniformIsInTheHalfOpenUnitInterval) {
  EXPECT_EQ(Philox::uniform(0u), 0.0f);
  EXPECT_EQ(Philox::uniform(0xffffffffu), 1.0f - 0x1p-24f);
}

TEST(Philox, UniformNumbersFillTheirBinsEvenly) {
  constexpr int kBins = 64;
  constexpr int kCount = 64 * 4096;
  const Philox random = Philox::stream(20240501, RandomPurpose::test);
  std::vector<int> bins(kBins);
  double sum = 0;
  double product = 0;  // of neighbours, to see whether they depend on each other
  double before = 0.5;
  for (int i = 0; i < kCount; ++i) {
    const double u = random.uniform(std::uint64_t(i) / 1000, std::uint64_t(i) % 1000);
    ++bins[std::size_t(u * kBins)];
    sum += u;
    product += (u - 0.5) * (before - 0.5);
    before = u;
  }
  double chi2 = 0;
  const double expected = double(kCount) / kBins;
  for (int count : bins) chi2 += (count - expected) * (count - expected) / expected;
  // Chi squared with 63 degrees of freedom: mean 63, deviation sqrt(126). Five deviations.
  EXPECT_LT(chi2, 63 + 5 * std::sqrt(126.0));
  EXPECT_GT(chi2, 63 - 5 * std::sqrt(126.0));
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(product / kCount, 0.0, 5.0 / 12 / std::sqrt(double(kCount)));
}

TEST(Philox, SeedsPurposesAndMembersHaveStreamsOfTheirOwn) {
  std::set<std::uint64_t> keys;
  int streams = 0;
  for (std::uint64_t seed : {0ull, 1ull, 2ull, 1ull << 32, ~0ull}) {
    for (RandomPurpose purpose : {RandomPurpose::weights, RandomPurpose::dropout,
                                  RandomPurpose::denoising, RandomPurpose::shuffle}) {
      for (std::uint32_t member = 0; member < 50; ++member, ++streams) {
        const Philox random = Philox::stream(seed, purpose, member);
        keys.insert(std::uint64_t(random.key1) << 32 | random.key0);
      }
    }
  }
  EXPECT_EQ(int(keys.size()), streams);
}

}  // namespace
}  // namespace norn
