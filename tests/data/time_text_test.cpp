// SPDX-License-Identifier: Apache-2.0
// Times of texts: what is read, and what is said of lines whose time is wrong.
#include "norn/data/text_reader.h"
#include "support.h"

#include <ctime>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Microseconds kSecond = 1'000'000;

TEST(ParseTime, ReadsDatesAndUnixTimes) {
  const Microseconds day = 1'769'817'600 * kSecond;  // 2026-01-31
  const std::vector<std::pair<const char*, Microseconds>> known = {
      {"1970-01-01", 0},
      {"2026-01-31", day},
      {"20260131", day},
      {"2026-01-31T00:00", day},
      {"2026-01-31 12:30:05", day + 45'005 * kSecond},
      {"2026-01-31t12:30:05z", day + 45'005 * kSecond},
      {"2026-01-31T12:30:05.25+01:00", day + 41'405 * kSecond + 250'000},
      {"2026-01-31T12:30:05,1234567-0230", day + 54'005 * kSecond + 123'456},
      {"2026-01-31T12:30+02", day + 37'800 * kSecond},
      {"2026-01-31T23:59:60Z", day + 86'400 * kSecond},
      {"2024-02-29", 1'709'164'800 * kSecond},
      {"0001-01-01", -62'135'596'800 * kSecond},
      {"9999-12-31", 253'402'214'400 * kSecond},
      {"0", 0},
      {"-1", -kSecond},
      {"7", 7 * kSecond},
      {"881250949", 881'250'949 * kSecond},
      {"1769817600", day},
      {"1769817600.5", day + 500'000},
      {"-1.5", -1'500'000},
      {"1769817600000", day},
      {"1769817600123.25", day + 123'250},
      {"99999999999", 99'999'999'999 * kSecond},
      {"100000000000", 100'000'000 * kSecond},
  };
  for (const auto& [text, time] : known) EXPECT_EQ(parse_time(text), time) << text;
}

TEST(ParseTime, AgreesWithTheLibraryOnAnyDay) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    const std::time_t seconds =
        std::uniform_int_distribution<std::time_t>(-62'135'596'800, 253'402'300'799)(random);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    std::array<char, 40> text{};
    std::strftime(text.data(), text.size(), "-%m-%dT%H:%M:%S", &parts);
    EXPECT_EQ(parse_time(fmt::format("{:04}{}", parts.tm_year + 1900, text.data())),
              seconds * kSecond)
        << seconds;
  }
}

TEST(ParseTime, TakesNothingElse) {
  for (const char* text : {"",
                           " ",
                           "x",
                           "yesterday",
                           "2026-1-31",
                           "2026-13-01",
                           "2026-02-30",
                           "2025-02-29",
                           "20260230",
                           "2026-00-10",
                           "2026-01-31T",
                           "2026-01-31T24:00",
                           "2026-01-31T12",
                           "12:30",
                           "2026-01-31T12:60",
                           "2026-01-31T12:30:61",
                           "2026-01-31T12:30.5",
                           "2026-01-31T12:60:05.5",
                           "2026-01-31T12:30:61.5",
                           "2026-01-31T24:30:05.5",
                           "2026-01-31T12:30:05.",
                           "2026-01-31T12:30+",
                           "2026-01-31T12:30+25:00",
                           "2026-01-31T12:30+01:0",
                           "2026-01-31 ",
                           " 2026-01-31",
                           "2026-01-31x",
                           "2026/01/31",
                           "31.01.2026",
                           "01/31/2026",
                           "1.5e9",
                           "+5",
                           "--5",
                           "-",
                           ".5",
                           "5.",
                           "1.2.3",
                           "nan",
                           "inf",
                           "0x10",
                           "100000000000000",
                           "-100000000000000",
                           "99999999999999999999999",
                           "1,5",
                           "1 5",
                           "2026-01-31T12:30:05+01:00Z"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

/// example|feature|values|time of each line.
std::vector<std::string> lines_of(const std::string& text, TextOptions options,
                                  const std::string& name = "t.csv") {
  options.times = true;
  TextReader reader(name, text, options);
  std::vector<std::string> lines;
  TextRow row;
  while (reader.next(row))
    lines.push_back(fmt::format("{}|{}|{}|{}", row.example, row.features.at(0),
                                fmt::join(row.values, " "), row.times.at(0) / kSecond));
  return lines;
}

using Lines = std::vector<std::string>;

TEST(TimeColumn, IsTheFourthOrHasANameOrANumber) {
  EXPECT_EQ(lines_of("u,i,9,5\nv,j,9,6\n", {}), (Lines{"u|i||5", "v|j||6"}));
  TextOptions third;
  third.time_column = "3";
  EXPECT_EQ(lines_of("u\ti\t1970-01-02\n", third, "t.tsv"), Lines{"u|i||86400"});
  TextOptions named;
  named.time_column = "when";
  EXPECT_EQ(lines_of("when,user,item\n7,u,i\n", named), Lines{"7|u||7"}) << "others by number";
  named.example_column = "user";
  named.feature_column = "item";
  named.value_column = "stars";
  named.values = TextValues::require;
  EXPECT_EQ(lines_of("when,user,stars,item\n7,u,2.5,i\n", named), Lines{"u|i|2.5|7"});
  named.time_column = "wen";
  EXPECT_THAT(message_of<UsageError>([&] { lines_of("when,user,stars,item\n", named); }),
              HasSubstr("no column \"wen\"; did you mean \"when\"?"));
}

TEST(TimeColumn, AHeaderMustCallTheFourthATimeWhereNoneIsGiven) {
  for (const char* name :
       {"timestamp", "TIME", "order_date", "rated_at", "when", "timestamp:float"})
    EXPECT_EQ(lines_of(fmt::format("user,item,stars,{}\nu,i,9,5\n", name), {}), Lines{"u|i||5"})
        << name;
  const std::string words =
      "t.csv:1: a split by time needs the column of the times, which is column 4 where none is "
      "given, but the header line calls that \"qty\"; say which it is with `time_column`. It has: "
      "user, item, price, qty, when";
  const std::string text = "user,item,price,qty,when\nu,i,9.5,2,2026-01-01\n";
  EXPECT_EQ(message_of<UsageError>([&] { lines_of(text, {}); }), words);
  TextOptions named;
  named.example_column = "user";
  EXPECT_EQ(message_of<UsageError>([&] { lines_of(text, named); }), words);
  EXPECT_EQ(message_of<UsageError>([&] { lines_of("user,item,when\nu,i,5\n", named); }),
            "t.csv:1: a split by time needs the column of the times, which is column 4 where none "
            "is given, but the header line has 3 columns; say which it is with `time_column`. It "
            "has: user, item, when");
  named.time_column = "4";
  EXPECT_EQ(lines_of(text, named), Lines{"u|i||2"}) << "as it was told";
}

TEST(TimeColumn, AGuessedOneWithoutTimesOfTodayIsDoubted) {
  const auto doubt_of = [](const std::string& text, const std::string& column) {
    TextOptions options;
    options.times = true;
    options.time_column = column;
    TextReader reader("t.csv", text, options);
    TextRow row;
    while (reader.next(row)) {
    }
    return reader.time_doubt().value_or("");
  };
  const std::string counts = "u,i,9.5,2\nu,j,9.5,12\nv,i,1,3\n";
  EXPECT_EQ(doubt_of(counts, ""),
            "times are read from column 4, as no other is given, and all are before 1980, the "
            "latest is \"12\"; say which column has the times with `time_column`");
  EXPECT_EQ(doubt_of(counts, "4"), "");
  EXPECT_EQ(doubt_of("196,242,3,881250949\n", ""), "") << "u.data of MovieLens";
  EXPECT_EQ(doubt_of(counts + "w,i,1,1980-01-01\n", ""), "");
}

TEST(TimeColumn, ALineAboveTimesIsAHeader) {
  TextOptions third;
  third.time_column = "3";
  EXPECT_EQ(lines_of("user,item,day\nu,i,1970-01-02\n", third), Lines{"u|i||86400"});
  EXPECT_THAT(message_of([&] { lines_of("u,i,soon\nu,i,later\n", third); }),
              StartsWith("t.csv:1: the time \"soon\" is no ISO date"));
  EXPECT_THAT(message_of([&] { lines_of("u,i,soon\n", third); }), StartsWith("t.csv:1: the time"));
}

TEST(TimeColumn, NamesLineAndValueOfEveryDefect) {
  const auto expect = [](const std::string& line, const std::string& words) {
    EXPECT_THAT(message_of([&] { lines_of("u,i,1,5\n" + line + "\n", {}); }),
                StartsWith("t.csv:2: " + words))
        << line;
  };
  expect("u,i,1", "the line has 3 columns, column 4 is wanted");
  expect("u,i,1,",
         "the time \"\" is no ISO date (2026-01-31, 2026-01-31T12:30:00Z) and no Unix time "
         "in seconds or milliseconds; correct the line, or say which column has the times with "
         "`time_column`, or pass over malformed lines with `skip_malformed` N");
  expect("u,i,1,2026-02-30", "the time \"2026-02-30\" is no ISO date");
  expect("u,i,1,1e9", "the time \"1e9\" is no ISO date");
  TextOptions lenient;
  lenient.skip_malformed = 2;
  EXPECT_EQ(lines_of("u,i,1,5\nu,i,1,\nu,j,1,nil\nv,k,1,6\n", lenient),
            (Lines{"u|i||5", "v|k||6"}));
}

}  // namespace
}  // namespace norn
