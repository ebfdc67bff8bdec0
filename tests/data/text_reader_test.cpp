// SPDX-License-Identifier: Apache-2.0
// The text formats: what is read, and what is said of lines that are wrong.
#include "norn/data/text_reader.h"

#include "support.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

namespace norn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A row as text: example|features|numbers|values|labels.
std::string shown(const TextRow& row) {
  return fmt::format("{}|{}|{}|{}|{}", row.example, fmt::join(row.features, " "),
                     fmt::join(row.numbers, " "), fmt::join(row.values, " "),
                     fmt::join(row.labels, " "));
}

std::vector<std::string> rows_of(TextReader& reader) {
  std::vector<std::string> rows;
  TextRow row;
  while (reader.next(row)) rows.push_back(shown(row));
  return rows;
}

std::vector<std::string> rows_of(const std::string& text, TextOptions options = {},
                                 const std::string& name = "t.txt") {
  TextReader reader(name, text, options);
  return rows_of(reader);
}

std::string error_of(const std::string& text, TextOptions options = {},
                     const std::string& name = "t.txt") {
  return message_of([&] { rows_of(text, options, name); });
}

using Rows = std::vector<std::string>;

TextOptions with(TextValues values, TextFormat format = TextFormat::automatic) {
  TextOptions options;
  options.values = values;
  options.format = format;
  return options;
}

TEST(DsstneText, ReadsFeaturesWithAndWithoutValues) {
  const std::string text = "alice\tsoap:bread,2.5:milk\nbob\t\ncarol\tmilk,-1e-3:\n";
  EXPECT_EQ(rows_of(text), (Rows{"alice|soap bread milk|||", "bob||||", "carol|milk|||"}));
  TextOptions filled = with(TextValues::optional);
  filled.missing_value = 9;
  EXPECT_EQ(rows_of(text, filled),
            (Rows{"alice|soap bread milk||9 2.5 9|", "bob||||", "carol|milk||-0.001|"}));
  EXPECT_EQ(rows_of("a\tx,1:y,2\n", with(TextValues::require)), (Rows{"a|x y||1 2|"}));
}

TEST(DsstneText, AcceptsReturnsByteOrderMarksEmptyLinesAndAMissingLastLineEnd) {
  EXPECT_EQ(rows_of("\xEF\xBB\xBF"
                    "a\t1:2\r\n\r\n\nb\t3"),
            (Rows{"a|1 2|||", "b|3|||"}));
}

TEST(DsstneText, NamesLineValueAndNextStepOfEveryDefect) {
  const auto expect = [](const std::string& line, const std::string& words,
                         TextValues values = TextValues::ignore) {
    EXPECT_THAT(error_of("good\t1,1\n" + line + "\n", with(values, TextFormat::named("dsstne"))),
                StartsWith("t.txt:2: " + words))
        << line;
  };
  const std::string next =
      "; correct the line, or pass over malformed lines with `skip_malformed` N";
  expect("lonely", "\"lonely\" has no tab between example and features" + next);
  expect("\t1:2", "the example has no name" + next);
  expect("a\t1\t2", "the features of \"a\" contain a second tab" + next);
  expect("a\t1,2,3", "the feature \"1\" has more than one value" + next);
  expect("a\t,3", "\",3\" has a value but no feature" + next);
  expect("a\tx,much", "the value \"much\" is not a number" + next);
  expect("a\tx,", "the value \"\" is not a number" + next);
  expect("a\tx,nan", "the value \"nan\" is not a finite 32-bit number" + next);
  expect("a\tx,inf", "the value \"inf\" is not a finite 32-bit number" + next);
  expect("a\tx,1e39", "the value \"1e39\" is not a finite 32-bit number" + next);
  expect("a\tx,1e999", "the value \"1e999\" is not a finite 32-bit number" + next);
  expect("a\tx", "the feature \"x\" has no value" + next, TextValues::require);
  const std::string name(65'536, 'n'), begin(40, 'n');
  expect(name + "\tx",
         "the name of the example \"" + begin + "...\" has 65536 bytes, more than 65535" + next);
  expect("a\tx:" + name + ",1",
         "the name of the feature \"" + begin + "...\" has 65536 bytes, more than 65535" + next);
}

TEST(TextReader, CountsTheBytesOfAFileThatItHasRead) {
  std::mt19937 random(fresh_seed());
  const TempDir folder;
  std::string text;
  for (unsigned i = 0; i < 1 + random() % 1000; ++i) text += fmt::format("a{}\t{}\n", i, random());
  write_text(folder / "t.txt", text);
  TextReader of_file(folder / "t.txt", {});
  rows_of(of_file);
  EXPECT_EQ(of_file.bytes_read(), Index(text.size()));
  EXPECT_EQ(of_file.bytes_total(), Index(text.size()));
  TextReader of_text("t.txt", text, {});
  rows_of(of_text);
  EXPECT_EQ(of_text.bytes_read(), 0);
  EXPECT_EQ(of_text.bytes_total(), 0);
}

TEST(TextReader, NamesFilesThatCannotBeRead) {
  const TempDir folder;
  const std::string closed = (folder / "closed").string(), text = (folder / "closed.txt").string(),
                    cut = (folder / "cut.txt.gz").string();
  const auto error = [](const std::string& file) {
    return message_of([&] {
      TextReader reader(file, {});
      rows_of(reader);
    });
  };
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::create_directory(closed);
  write_text(text, "a\t1\n");
  for (const std::string& path : {closed, text})
    std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_EQ(without_privileges([&] { return error(closed); }),
            closed + ": cannot list the folder: Permission denied; check its permissions");
  EXPECT_EQ(without_privileges([&] { return error(text); }),
            text + ": cannot open: Permission denied; check the path and its permissions");
  const gzFile file = gzopen(cut.c_str(), "wb");
  for (int i = 0; i < 1000; ++i) gzprintf(file, "example%d\t%d\n", i, i * i);
  gzclose(file);
  std::filesystem::resize_file(cut, 1000);
  EXPECT_EQ(error(cut),
            cut + ": cannot read: unexpected end of file; the file may be truncated or damaged");
}

TEST(TextReader, NamesALineThatEndsNowhere) {
  // Gzip's members follow one another: 4 MiB of one letter, 64 times and once more.
  const TempDir folder;
  const std::string file = (folder / "one.txt.gz").string();
  const gzFile member = gzopen(file.c_str(), "wb9");
  const std::string letters(1 << 22, 'a');
  gzwrite(member, letters.data(), unsigned(letters.size()));
  gzclose(member);
  const std::string once = read_text(file);
  std::string all;
  for (int i = 0; i < 65; ++i) all += once;
  write_text(file, all);
  EXPECT_EQ(message_of([&] { TextReader(file, {}); }),
            file + ":1: the line is longer than 268435456 bytes; is this a text file?");
}

TEST(TextReader, NamesAHeaderLineThatIsBroken) {
  TextOptions options = with(TextValues::ignore, TextFormat::named("csv"));
  options.example_column = "user";
  EXPECT_EQ(error_of("\"user,item\n1,2\n", options),
            "t.txt:1: \"\"user,item\" has no closing quote; correct the header line");
}

TEST(DsstneText, PassesOverAsManyMalformedLinesAsAllowed) {
  const std::string text = "a\t1\nbad\nb\t2\nworse\nc\t3\n";
  TextOptions options = with(TextValues::ignore, TextFormat::named("dsstne"));
  options.skip_malformed = 2;
  TextReader reader("t.txt", text, options);
  EXPECT_EQ(rows_of(reader), (Rows{"a|1|||", "b|2|||", "c|3|||"}));
  EXPECT_EQ(reader.malformed(), 2);
  EXPECT_THAT(reader.first_malformed(), StartsWith("t.txt:2: \"bad\" has no tab"));
  options.skip_malformed = 1;
  EXPECT_THAT(
      error_of(text, options),
      HasSubstr("t.txt:4: \"worse\" has no tab between example and features; correct the line, "
                "it is malformed line number 2 and 1 may be passed over"));
}

TEST(TextReader, ReadsFoldersInTheOrderOfNamesAndUnpacksGzip) {
  const TempDir folder;
  const auto texts = folder / "texts";
  std::filesystem::create_directory(texts);
  std::filesystem::create_directory(texts / "below");
  write_text(texts / "b.txt", "b\t2");  // without a line end
  write_text(texts / "c.txt", "c\t3\n");
  const gzFile file = gzopen((texts / "a.txt.gz").c_str(), "wb");
  gzputs(file, "a\t1\n");
  gzclose(file);
  TextReader reader(texts, {});
  TextRow row;
  ASSERT_TRUE(reader.next(row));
  EXPECT_EQ(shown(row), "a|1|||");
  ASSERT_TRUE(reader.next(row));
  EXPECT_EQ(shown(row), "b|2|||");
  EXPECT_EQ(reader.place(), (texts / "b.txt").string() + ":1");
  ASSERT_TRUE(reader.next(row));
  EXPECT_EQ(shown(row), "c|3|||");
  EXPECT_FALSE(reader.next(row));
}

TEST(TextReader, ReadsLinesAcrossBlocksLikeAReaderOfLines) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TempDir folder;
  std::string text;
  Rows expected;
  while (text.size() < (std::size_t(10) << 20)) {  // several blocks of the reader
    const bool is_long = random() % 50 == 0;
    const std::vector<std::string> features(
        is_long ? 4 : 1,
        std::string(is_long ? 50'000 : 1 + random() % 3000, char('a' + random() % 26)));
    text += fmt::format("e{}\t{}{}", expected.size(), fmt::join(features, ":"),
                        random() % 2 == 0 ? "\n" : "\r\n");
    expected.push_back(fmt::format("e{}|{}|||", expected.size(), fmt::join(features, " ")));
  }
  write_text(folder / "t.txt", text);
  TextReader plain(folder / "t.txt", with(TextValues::ignore, TextFormat::named("dsstne")));
  EXPECT_EQ(rows_of(plain), expected);
  const gzFile file = gzopen((folder / "t.gz").c_str(), "wb1");
  gzwrite(file, text.data(), unsigned(text.size()));
  gzclose(file);
  TextReader packed(folder / "t.gz", with(TextValues::ignore, TextFormat::named("dsstne")));
  EXPECT_EQ(rows_of(packed), expected);
  std::filesystem::resize_file(folder / "t.gz", std::filesystem::file_size(folder / "t.gz") / 2);
  EXPECT_THAT(message_of([&] {
                TextReader cut(folder / "t.gz",
                               with(TextValues::ignore, TextFormat::named("dsstne")));
                rows_of(cut);
              }),
              HasSubstr("t.gz: cannot read: "));
}

TEST(TextReader, ReadsMembersOfGzipAndNothingElseBehindThem) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TempDir folder;
  const std::string path = (folder / "t.gz").string();
  const auto packed = [&](const std::string& text) {
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), unsigned(text.size()));
    gzclose(file);
    return read_text(path);
  };
  const auto rows = [&](const std::string& bytes) {
    write_text(path, bytes);
    TextReader reader(path, with(TextValues::ignore, TextFormat::named("dsstne")));
    return rows_of(reader);
  };
  std::string noise;  // does not shrink: longer than what is read at a time
  for (int i = 0; i < 60'000; ++i) noise += fmt::format("e{}\t{}\n", i, random());
  const std::string first = packed("a\t1\n"), empty = packed(""), large = packed(noise);
  EXPECT_EQ(rows(first + empty + first), (Rows{"a|1|||", "a|1|||"}));
  EXPECT_EQ(rows(first + std::string(1'000, '\0')), (Rows{"a|1|||"}));
  EXPECT_EQ(rows(large + first).size(), 60'001u);
  EXPECT_EQ(message_of([&] { rows(first + "plain text\n"); }),
            fmt::format("{}: cannot read: incorrect header check after byte {}; the file may be "
                        "truncated or damaged",
                        path, first.size()));
  for (const std::string& before : {first, large}) {
    for (std::string after : {first, large, std::string("plain text\n")}) {
      after[random() % 2] ^= char(1 + random() % 255);
      EXPECT_THAT(message_of([&] { rows(before + after); }),
                  testing::AllOf(StartsWith(path + ": cannot read: "),
                                 HasSubstr(fmt::format("{}", before.size())),
                                 HasSubstr("; the file may be truncated or damaged")))
          << before.size() << " bytes, then " << after.size();
    }
    EXPECT_THAT(message_of([&] { rows(before + "\x1f"); }), HasSubstr("unexpected end of file"));
    EXPECT_THAT(message_of([&] { rows(before + std::string(3, '\0') + first); }),
                HasSubstr(fmt::format("what follows byte {} is not gzip", before.size())));
  }
}

TEST(TextReader, NamesFilesThatCannotBeText) {
  const TempDir folder;
  EXPECT_THAT(message_of([&] { TextReader(folder / "none", {}); }),
              HasSubstr("none: no such file or folder"));
  EXPECT_THAT(message_of([&] { TextReader(folder.path(), {}); }),
              HasSubstr("the folder has no files"));
  write_text(folder / "empty", "\n\r\n");
  EXPECT_THAT(message_of([&] { TextReader(folder / "empty", {}); }),
              HasSubstr("empty: holds no text"));
  write_text(folder / "zero", std::string("a\t1\nb\t\0\n", 8));
  EXPECT_THAT(message_of([&] { TextReader(folder / "zero", {}); }),
              HasSubstr("zero: holds a zero byte, so it is not text"));
  write_text(folder / "prose", "once upon a time\n");
  EXPECT_THAT(
      message_of([&] { TextReader(folder / "prose", {}); }),
      HasSubstr(
          "the first line \"once upon a time\" follows no known format; say which with `format` "
          "dsstne, libsvm, csv, tsv or list"));
}

TEST(ListText, ReadsExamplesAndFeaturesByName) {
  EXPECT_EQ(
      rows_of("7 3 5 3\n12  9\t4 \n\n8\n", with(TextValues::ignore, TextFormat::named("list"))),
      (Rows{"7|3 5 3|||", "12|9 4|||", "8||||"}));
  TextOptions filled = with(TextValues::optional, TextFormat::named("list"));
  filled.missing_value = 4;
  EXPECT_EQ(rows_of("Ada milk soap\n", filled), (Rows{"Ada|milk soap||4 4|"}));
}

TEST(ListText, NamesLineValueAndNextStepOfEveryDefect) {
  const auto expect = [](const std::string& line, const std::string& words,
                         TextValues values = TextValues::ignore) {
    EXPECT_THAT(error_of("0 1\n" + line + "\n", with(values, TextFormat::named("list"))),
                StartsWith("t.txt:2: " + words))
        << line;
  };
  expect("1 3:0.5", "the feature \"3:0.5\" has a colon, as lists never have; libsvm text does");
  expect("1 a,b", "the feature \"a,b\" has a comma, as lists never have; csv does");
  EXPECT_THAT(error_of("0 1\n", with(TextValues::require, TextFormat::named("list"))),
              StartsWith("t.txt:1: the feature \"1\" has no value, as lists never have"));
}

TEST(LibsvmText, SaysHowListsAreRead) {
  EXPECT_THAT(
      error_of("0 3 5 7\n", with(TextValues::require, TextFormat::named("libsvm"))),
      StartsWith("t.txt:1: the feature 3 has no value; lines of an example and its features "
                 "alone are read with `format` list"));
}

TEST(LibsvmText, RefusesHeadersThatNoDataSetCanHave) {
  for (const char* header : {"4294967296 1 1", "1 9223372036854775807 1", "1 1 4294967296"}) {
    for (TextFormat format : {TextFormat::automatic, TextFormat::named("libsvm")}) {
      EXPECT_THAT(error_of(std::string(header) + "\n1 1:1\n", with(TextValues::require, format)),
                  testing::AllOf(StartsWith("t.txt:1: the header announces "),
                                 HasSubstr("a data set has at most 4294967295; correct the header "
                                           "line")))
          << header;
    }
  }
  EXPECT_EQ(rows_of("1 4294967295 1\n0 4294967294:1\n", with(TextValues::require)),
            (Rows{"0||4294967294|1|0"}));
}

TEST(LibsvmText, ReadsLabelsFeaturesHeaderAndComments) {
  TextReader reader("x", "2 10 5\n1,4 0:1 9:2.5\n 3:1 # no labels\n2\n", with(TextValues::require));
  EXPECT_EQ(rows_of(reader), (Rows{"0||0 9|1 2.5|1 4", "1||3|1|", "2||||2"}));
  ASSERT_TRUE(reader.header());
  EXPECT_EQ(reader.header()->examples, 2);
  EXPECT_EQ(reader.header()->features, 10);
  EXPECT_EQ(reader.header()->labels, 5);
  EXPECT_EQ(rows_of("-1 1:1 2:2\n+1 3:1\n"), (Rows{"0||1 2||-1", "1||3||+1"}));
  TextOptions filled = with(TextValues::optional, TextFormat::named("libsvm"));
  filled.missing_value = 4;
  EXPECT_EQ(rows_of("1 1:2.5 2 3:1\n2 7\n", filled), (Rows{"0||1 2 3|2.5 4 1|1", "1||7|4|2"}));
  EXPECT_EQ(rows_of("0:1\n", with(TextValues::ignore, TextFormat::named("libsvm"))),
            (Rows{"0||0||"}));
}

TEST(LibsvmText, NamesLineValueAndNextStepOfEveryDefect) {
  const auto expect = [](const std::string& line, const std::string& words) {
    EXPECT_THAT(
        error_of("1 10 5\n" + line + "\n", with(TextValues::require, TextFormat::named("libsvm"))),
        StartsWith("t.txt:2: " + words))
        << line;
  };
  expect("1 x:1", "the feature \"x\" is not a number from 0 to 4294967294");
  expect("1 -3:1", "the feature \"-3\" is not a number from 0");
  expect("1 4294967295:1", "the feature \"4294967295\" is not a number from 0 to 4294967294");
  expect("1 10:1", "the feature 10 is out of range, the header announces 10 features, from 0");
  expect("1 3:x", "the value \"x\" is not a number");
  expect("1 3:inf", "the value \"inf\" is not a finite");
  expect("1 3", "the feature 3 has no value");
  expect("1,,2 3:1", "the feature has no name");
}

TEST(ColumnText, ReadsColumnsByNumberAndByName) {
  EXPECT_EQ(rows_of("u1,i1\nu1,i2\nu2,i1\n"), (Rows{"u1|i1|||", "u1|i2|||", "u2|i1|||"}));
  TextOptions options = with(TextValues::require);
  options.example_column = "user";
  options.feature_column = "3";
  options.value_column = "rating";
  EXPECT_EQ(rows_of("rating,user,item\n2.5,u1,i1\n3,u2,i2,more\n", options),
            (Rows{"u1|i1||2.5|", "u2|i2||3|"}));
  EXPECT_EQ(rows_of("u\ti\tv\nu1\ti 1\t2\n", with(TextValues::require)), (Rows{"u1|i 1||2|"}))
      << "a first value that is no number makes the line a header";
  EXPECT_EQ(rows_of("u1\ti1\t2\n", with(TextValues::require)), (Rows{"u1|i1||2|"}));
  TextOptions headed;
  headed.header = HeaderLine::present;
  EXPECT_EQ(rows_of("user,item\nu1,i1\n", headed), (Rows{"u1|i1|||"}));
  EXPECT_EQ(rows_of("user,item\nu1,i1\n"), (Rows{"user|item|||", "u1|i1|||"}));
}

TEST(ColumnText, TakesALineForAHeaderWhereNumbersFollowThatAreDropped) {
  EXPECT_EQ(rows_of("user,item,rating\r\nu1,i1,4.5\r\n", {}, "t.csv"), (Rows{"u1|i1|||"}));
  EXPECT_EQ(rows_of("user\titem\tat\nu1\ti1\t978\n"), (Rows{"u1|i1|||"}));
  for (const char* rest : {"", "\n", "\nu1,i1\n", "\nu1,i1,good\n", "\nu1,i1,\n"})
    EXPECT_EQ(rows_of("u0,i0,bad" + std::string(rest), {}, "t.csv").front(), "u0|i0|||") << rest;
  EXPECT_EQ(rows_of("u0,i0,1\nu1,i1,2\n", {}, "t.csv").size(), 2u);
  EXPECT_EQ(rows_of("u0,i0,\nu1,i1,2\n", {}, "t.csv").size(), 2u);
  TextOptions none;
  none.header = HeaderLine::absent;
  EXPECT_EQ(rows_of("u0,i0,bad\nu1,i1,2\n", none, "t.csv").size(), 2u);
  TextOptions third;
  third.feature_column = "3";
  EXPECT_EQ(rows_of("u0,x,soap\nu1,x,42\n", third, "t.csv").size(), 2u) << "a feature is no value";
}

TEST(ColumnText, RefusesAColumnThatTheHeaderLineDoesNotName) {
  const std::string told =
      "t.csv:1: the header line has no name for a column that is read, such as the row numbers "
      "that pandas writes; say which columns have examples and features";
  TextOptions headed;
  headed.header = HeaderLine::present;
  const auto refused = [&](const std::string& text, const TextOptions& options) {
    return message_of<UsageError>([&] { rows_of(text, options, "t.csv"); });
  };
  for (const char* text :
       {",user,item\n0,u1,i1\n", ",user,item,rating\n0,u1,i1,4\n", "user,,item\nu1,0,i1\n"})
    EXPECT_EQ(refused(text, headed), told) << text;
  EXPECT_EQ(refused(",user,item\n0,u1,i1\n", {}), told);
  EXPECT_EQ(refused(",user,item,rating\n0,17,4,2\n", {}), told);
  EXPECT_EQ(refused(",user,rating\n0,17,4\n", with(TextValues::require)), told);
  TextOptions others = headed;
  others.example_column = "2";
  others.feature_column = "item";
  EXPECT_EQ(rows_of(",user,item\n0,u1,i1\n", others, "t.csv"), (Rows{"u1|i1|||"}));
}

TEST(ColumnText, ReadsQuotedFields) {
  EXPECT_EQ(rows_of("\"last, first\",\"say \"\"hi\"\"\"\nplain,\"x\"\n", {}, "t.csv"),
            (Rows{"last, first|say \"hi\"|||", "plain|x|||"}));
}

TEST(ColumnText, RepeatedHeadersOfAFolderArePassedOver) {
  const TempDir folder;
  write_text(folder / "1.csv", "user,item\na,x\n");
  write_text(folder / "2.csv", "user,item\nb,y\n");
  TextOptions options;
  options.format = TextFormat::named("csv");
  options.example_column = "user";
  options.feature_column = "item";
  TextReader reader(folder.path(), options);
  EXPECT_EQ(rows_of(reader), (Rows{"a|x|||", "b|y|||"}));
}

TEST(ColumnText, TakesNamesAsTheyAre) {
  EXPECT_EQ(rows_of("u,\"Heat, The: a 1\"\nv:w,a:b\n", {}, "t.csv"),
            (Rows{"u|Heat, The: a 1|||", "v:w|a:b|||"}));
  EXPECT_EQ(rows_of("u\tHeat, The: 1\t2\n", with(TextValues::require), "t.tsv"),
            (Rows{"u|Heat, The: 1||2|"}));
}

TEST(TextReader, NamesTheOptionOfItsUser) {
  TextOptions options = with(TextValues::require);
  options.format_option = "--request-format";
  EXPECT_THAT(error_of("what is this\n", options),
              HasSubstr("say which with --request-format dsstne, libsvm, csv, tsv or list"));
  options.format = TextFormat::named("libsvm");
  EXPECT_THAT(error_of("0 3 5 7\n", options), HasSubstr("are read with --request-format list"));
}

TEST(ColumnText, NamesLineValueAndNextStepOfEveryDefect) {
  const auto expect = [](const std::string& line, const std::string& words) {
    EXPECT_THAT(error_of("u,i,1\n" + line + "\n", with(TextValues::require), "t.csv"),
                StartsWith("t.csv:2: " + words))
        << line;
  };
  expect("alone", "the line has 1 columns, column 2 is wanted");
  expect("u,i", "the line has 2 columns, column 3 is wanted");
  expect("u,i,x", "the value \"x\" is not a number");
  expect("u,i,", "the value \"\" is not a number");
  expect(",i,1", "the example has no name");
  expect("u,,1", "the feature has no name");
  expect("u\tv,i,1",
         "the example \"u\\x09v\" has a tab in its name, which ends names in index files");
  expect("u,i\tj,1", "the feature \"i\\x09j\" has a tab in its name");
  expect("\"u,i,1", "\"\"u,i,1\" has no closing quote");
  expect("\"u\"x,i,1", "\"\"u\"x,i,1\": text follows a closing quote");
  TextOptions named;
  named.feature_column = "itm";
  EXPECT_THAT(message_of<UsageError>([&] { rows_of("user,item\n", named, "t.csv"); }),
              HasSubstr("t.csv:1: the header line has no column \"itm\"; did you mean \"item\"? "
                        "It has: user, item"));
  named.header = HeaderLine::absent;
  EXPECT_THAT(message_of<UsageError>([&] { rows_of("user,item\n", named, "t.csv"); }),
              HasSubstr("columns are named, but the text is said to have no header line"));
  TextOptions zero;
  zero.example_column = "0";
  EXPECT_THAT(message_of<UsageError>([&] { rows_of("u,i\n", zero, "t.csv"); }),
              HasSubstr("columns are numbered from 1"));
}

}  // namespace
}  // namespace norn
