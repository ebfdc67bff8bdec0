// SPDX-License-Identifier: Apache-2.0
// Words, numbers and sizes.

#include "src/base/text.h"

#include <limits>
#include <random>

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

TEST(Text, NothingIsGuessedForWhatIsTooLong) {
  // The distance of these takes 2.5e13 steps.
  const std::string long_name(5'000'000, 'a');
  EXPECT_EQ(nearest_word(long_name, Words{long_name + "b", "Tanh"}), std::nullopt);
  EXPECT_EQ(nearest_word("Tanh", Words{long_name, "Tahn"}), "Tahn");
  EXPECT_EQ(nearest_word(std::string(256, 'a'), Words{std::string(300, 'a')}),
            std::string(300, 'a'));
}

TEST(Text, PrintableIsOneLineThatNoTerminalObeys) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("plain: \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \\x"),
            "plain: \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \\x");
  EXPECT_EQ(printable("a\nb\x1b[31m\t\r\x7f"), "a\\x0ab\\x1b[31m\\x09\\x0d\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\xc2\\x9b31m")
      << "U+009B begins a command, too";
  EXPECT_EQ(printable("\xE2\x80\xA8 \xE2\x80\xAE"), "\\xe2\\x80\\xa8 \\xe2\\x80\\xae");
  EXPECT_EQ(printable("caf\xE9 \xC3"), "caf\\xe9 \\xc3") << "Latin-1, and a letter that is cut";
  EXPECT_EQ(printable("\xC0\x8A\xED\xA0\x80"), "\\xc0\\x8a\\xed\\xa0\\x80") << "no UTF-8";
  EXPECT_EQ(printable(std::string("\0x", 2)), "\\x00x");
}

TEST(Text, PrintableLeavesNoControlsInAnyBytes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n)
      text += random() % 2 == 0 ? char(random()) : "\xC2\xE2\x80\xA8\xF0\x9F\n\x1b"[random() % 8];
    const std::string shown = printable(text);
    for (char c : shown) EXPECT_TRUE((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) << shown;
    EXPECT_EQ(printable(shown), shown);
  }
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
