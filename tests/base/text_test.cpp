// SPDX-License-Identifier: Apache-2.0
// Words, numbers and sizes.

#include "norn/base/text.h"

#include <limits>

#include <gtest/gtest.h>

namespace norn {
namespace {

using Words = std::vector<std::string>;

TEST(Text, LowerCaseChangesAsciiLettersOnly) {
  EXPECT_EQ(lower_case("SoftMax-42 \xC3\x84"), "softmax-42 \xC3\x84");
  EXPECT_EQ(lower_case(""), "");
}

TEST(Text, EqualIgnoringCase) {
  EXPECT_TRUE(equal_ignoring_case("ReLU", "relu"));
  EXPECT_TRUE(equal_ignoring_case("", ""));
  EXPECT_FALSE(equal_ignoring_case("relu", "relu "));
  EXPECT_FALSE(equal_ignoring_case("relu", "elu"));
}

TEST(Text, NearestWordForgivesTyposAndSwaps) {
  const Words known = {"Tanh", "Sigmoid", "Linear", "RectifiedLinear", "SoftMax"};
  EXPECT_EQ(nearest_word("Tahn", known), "Tanh");
  EXPECT_EQ(nearest_word("sigmiod", known), "Sigmoid");
  EXPECT_EQ(nearest_word("SOFTMAX", known), "SoftMax");
  EXPECT_EQ(nearest_word("RectifedLineer", known), "RectifiedLinear");
  EXPECT_EQ(nearest_word("Linea", known), "Linear");
}

TEST(Text, NearestWordIsNothingWhenNoneIsNear) {
  const Words known = {"Tanh", "Sigmoid", "Linear"};
  EXPECT_EQ(nearest_word("Convolution", known), std::nullopt);
  EXPECT_EQ(nearest_word("ab", Words{"xy"}), std::nullopt);
  EXPECT_EQ(nearest_word("", known), std::nullopt);
  EXPECT_EQ(nearest_word("Tanh", Words{}), std::nullopt);
}

TEST(Text, NearestWordTakesTheFirstOfEquals) {
  EXPECT_EQ(nearest_word("layerX", Words{"layerA", "layerB"}), "layerA");
}

TEST(Text, DidYouMeanIsASentenceOrNothing) {
  EXPECT_EQ(did_you_mean("Tahn", Words{"Tanh"}), "; did you mean \"Tanh\"?");
  EXPECT_EQ(did_you_mean("Convolution", Words{"Tanh"}), "");
}

TEST(Text, Join) {
  EXPECT_EQ(join(Words{"a", "b", "c"}), "a, b, c");
  EXPECT_EQ(join(Words{"a"}, "|"), "a");
  EXPECT_EQ(join(Words{}), "");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1024.0 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(139.0 * 1024 * 1024 * 1024), "139.0 GiB");
  EXPECT_EQ(human_bytes(-2048), "-2.0 KiB");
}

TEST(Text, WithThousands) {
  EXPECT_EQ(with_thousands(0), "0");
  EXPECT_EQ(with_thousands(999), "999");
  EXPECT_EQ(with_thousands(1000), "1,000");
  EXPECT_EQ(with_thousands(27278), "27,278");
  EXPECT_EQ(with_thousands(-123456), "-123,456");
  EXPECT_EQ(with_thousands(std::numeric_limits<long long>::min()), "-9,223,372,036,854,775,808");
}

TEST(Text, CountedIsSingularForOneAlone) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(12345, "example"), "12345 examples");
}

TEST(Text, HumanSeconds) {
  EXPECT_EQ(human_seconds(1.5), "1.5 s");
  EXPECT_EQ(human_seconds(9.96), "10 s");
  EXPECT_EQ(human_seconds(12), "12 s");
  EXPECT_EQ(human_seconds(59.6), "1 min 00 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
  EXPECT_EQ(human_seconds(std::numeric_limits<double>::infinity()), "unknown");
}

TEST(Text, ParseDoubleTakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_double("0.25"), 0.25);
  EXPECT_EQ(parse_double("-1e-3"), -1e-3);
  EXPECT_EQ(parse_double("+1"), 1.0);
  EXPECT_EQ(parse_double("1e-400"), 0.0);
  for (const char* bad : {"", " 1", "1 ", "1,5", "0x10", "+", "+-1", "++1", "1e", "abc", "1e999"}) {
    EXPECT_EQ(parse_double(bad), std::nullopt) << '"' << bad << '"';
  }
}

TEST(Text, ParseDoubleReadsWhatIsNotFinite) {
  EXPECT_EQ(parse_double("-inf"), -std::numeric_limits<double>::infinity());
  const std::optional<double> nan = parse_double("nan");
  ASSERT_TRUE(nan);
  EXPECT_NE(*nan, *nan);
}

TEST(Text, ParseIntegerTakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_integer("42"), 42);
  EXPECT_EQ(parse_integer("+7"), 7);
  EXPECT_EQ(parse_integer("-9223372036854775808"), std::numeric_limits<long long>::min());
  for (const char* bad : {"", "1.0", "9223372036854775808", " 1", "1\r", "+", "1e3", "+-1"}) {
    EXPECT_EQ(parse_integer(bad), std::nullopt) << '"' << bad << '"';
  }
}

}  // namespace
}  // namespace norn
