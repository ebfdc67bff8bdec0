// SPDX-License-Identifier: Apache-2.0
// Words, numbers and sizes.

#include "src/base/text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace norn {
namespace {

using Words = std::vector<std::string>;

/// The definition of the distance, from the ends of both words backwards, without a table.
std::size_t distance_by_definition(const std::string& a, const std::string& b) {
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> known;
  const auto of = [&](auto& self, std::size_t i, std::size_t j) -> std::size_t {
    if (i == 0 || j == 0) return i + j;
    const auto place = std::pair(i, j);
    if (known.count(place)) return known[place];
    std::size_t least = std::min(self(self, i - 1, j), self(self, i, j - 1)) + 1;
    least = std::min(least, self(self, i - 1, j - 1) + (a[i - 1] != b[j - 1]));
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
      least = std::min(least, self(self, i - 2, j - 2) + 1);
    return known[place] = least;
  };
  return of(of, a.size(), b.size());
}

std::string utf8(char32_t letter) {
  if (letter < 0x80) return {char(letter)};
  std::string bytes;
  for (; letter >= (bytes.empty() ? 0x40u : bytes.size() == 1 ? 0x20u : 0x10u); letter >>= 6)
    bytes.insert(bytes.begin(), char(0x80 | (letter & 0x3f)));
  const int first[] = {0, 0xc0, 0xe0, 0xf0};
  return char(first[bytes.size()] | int(letter)) + bytes;
}

TEST(Text, LowerCaseChangesAsciiLettersOnly) {
  EXPECT_EQ(lower_case("SoftMax-42 \xC3\x84"), "softmax-42 \xC3\x84");
  EXPECT_EQ(lower_case(""), "");
  EXPECT_EQ(lower_case("@AZ[`az{"), "@az[`az{") << "the first and the last, and their neighbours";
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

TEST(Text, NearestWordHasTheLeastDistanceOfAll) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto word = [&](std::size_t longest) {
    std::string letters(1 + random() % longest, 'a');
    for (char& letter : letters) letter = char('a' + random() % 4);
    return letters;
  };
  for (int round = 0; round < 400; ++round) {
    const std::string wanted = word(14);
    Words known;
    for (auto left = 1 + random() % 6; left > 0; --left) known.push_back(word(16));
    std::optional<std::string> expected;
    std::size_t least = std::max<std::size_t>(wanted.size() / 3, 2) + 1;
    for (const std::string& one : known) {
      const std::size_t distance = distance_by_definition(wanted, one);
      if (distance >= least || distance == std::max(wanted.size(), one.size())) continue;
      least = distance;
      expected = one;
    }
    EXPECT_EQ(nearest_word(wanted, known), expected) << wanted << " of " << join(known);
  }
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

TEST(Text, PrintableShowsEveryLetterButThoseThatAreObeyed) {
  for (char32_t letter = 0; letter <= 0x10ffff; letter += letter < 0x3000 ? 1 : 251) {
    if (letter >= 0xd800 && letter <= 0xdfff) continue;  // no letters
    bool obeyed = letter < 0x20 || (letter >= 0x7f && letter <= 0x9f);
    for (const char32_t one :
         U"\u2028\u2029\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067"
         U"\u2068\u2069")
      obeyed = obeyed || letter == one;
    const std::string bytes = utf8(letter);
    EXPECT_EQ(printable(bytes) != bytes, obeyed) << std::hex << unsigned(letter);
    EXPECT_EQ(valid_utf8(bytes), bytes) << std::hex << unsigned(letter);
  }
}

TEST(Text, FindsTheFirstByteThatIsNoUtf8) {
  const auto npos = std::string_view::npos;
  EXPECT_EQ(find_not_utf8(""), npos);
  EXPECT_EQ(find_not_utf8("gr\xC3\xBCn \xF0\x9F\x98\x80"), npos);
  EXPECT_EQ(find_not_utf8("gr\xFCn"), 2u);
  EXPECT_EQ(find_not_utf8("\xC3\xBC\xC3"), 2u) << "cut off";
  EXPECT_EQ(find_not_utf8("a\xED\xA0\x80"), 1u) << "a surrogate";
}

TEST(Text, ValidUtf8ReplacesEachByteThatIsNone) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(valid_utf8(""), "");
  EXPECT_EQ(valid_utf8("caf\xE9 \xC3"), "caf" + mark + " " + mark);
  EXPECT_EQ(valid_utf8("\x80x\xFF"), mark + "x" + mark);
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98\x80\xF0\x9F\x98"), "\xF0\x9F\x98\x80" + mark + mark + mark);
  for (const char* none : {"\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    std::string marks;
    for (std::size_t byte = 0; byte < std::string(none).size(); ++byte) marks += mark;
    EXPECT_EQ(valid_utf8(none), marks) << "too long, a surrogate, or beyond the last letter";
  }
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
  EXPECT_EQ(human_bytes(1023.5), "1.0 KiB") << "never 1024 B";
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1024.0 * 1024 - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(139.0 * 1024 * 1024 * 1024), "139.0 GiB");
  EXPECT_EQ(human_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(human_bytes(1023.94 * 1024), "1023.9 KiB");
  EXPECT_EQ(human_bytes(1023.96 * 1024), "1.0 MiB") << "never 1024.0 KiB";
  EXPECT_EQ(human_bytes(std::ldexp(5000.0, 60)), "5000.0 EiB") << "the largest unit";
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
  EXPECT_EQ(human_seconds(59.4), "59 s");
  EXPECT_EQ(human_seconds(3599.4), "59 min 59 s");
  EXPECT_EQ(human_seconds(3599.6), "1 h 00 min");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
  EXPECT_EQ(human_seconds(-90), "-1 min 30 s");
  EXPECT_EQ(human_seconds(2e15), "unknown");
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
