// SPDX-License-Identifier: Apache-2.0
// Labels and their numbers, in memory and in files.

#include "norn/data/label_index.h"

#include "support.h"

#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LabelIndex, AgreesWithAMapOnRandomLabels) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  LabelIndex index;
  std::map<std::string, Index> reference;
  for (int i = 0; i < 50'000; ++i) {
    // Lengths around the eight bytes that are hashed at a time, and some very long ones.
    const std::size_t length = random() % 1000 == 0 ? random() % 60'000 : random() % 20;
    std::string label(length, 'x');
    for (char& c : label) c = char(random() % 256);
    if (length < 4) label = fmt::format("{}", random() % 2000);
    const auto found = reference.find(label);
    EXPECT_EQ(index.find(label).has_value(), found != reference.end());
    const Index number = reference.emplace(label, Index(reference.size())).first->second;
    ASSERT_EQ(index.add(label), number);
    ASSERT_EQ(index.find(label), number);
  }
  ASSERT_EQ(index.size(), Index(reference.size()));
  for (const auto& [label, number] : reference) ASSERT_EQ(index.label(number), label);
}

TEST(LabelIndex, NumbersManyLabelsLikeOneByOne) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  LabelIndex together, alone;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < random() % 100; ++i)
      names.push_back(fmt::format("f{}", random() % 3000));
    const std::vector<std::string_view> labels(names.begin(), names.end());
    std::vector<Column> reported, added;
    together.number_all(labels, LabelIndex::Absent::report, reported);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(reported[i], Column(alone.find(labels[i]).value_or(LabelIndex::kUnknown)));
    }
    together.number_all(labels, LabelIndex::Absent::add, added);
    for (std::size_t i = 0; i < labels.size(); ++i)
      EXPECT_EQ(added[i], Column(alone.add(labels[i])));
  }
}

TEST(LabelIndex, RefusesLabelsThatAreTooLong) {
  LabelIndex index;
  EXPECT_EQ(index.add(std::string(65'535, 'a')), 0);
  EXPECT_EQ(index.label(0).size(), 65'535u);
  EXPECT_THAT(message_of([&] { index.add(std::string(65'536, 'b')); }),
              HasSubstr("has 65536 bytes, more than 65535; shorten it"));
}

TEST(LabelIndexFile, ComesBackTheSame) {
  const TempDir folder;
  LabelIndex index;
  for (int i = 0; i < 3000; ++i) index.add(fmt::format("label {}", i * 7));
  write_label_index(folder / "x", index);
  EXPECT_EQ(read_text(folder / "x").substr(0, 18), "label 0\t0\nlabel 7\t");
  const LabelIndex read = read_label_index(folder / "x");
  ASSERT_EQ(read.size(), index.size());
  for (Index i = 0; i < index.size(); ++i) EXPECT_EQ(read.label(i), index.label(i));
}

TEST(LabelIndexFile, MayListNumbersInAnyOrderAndEndLinesWithReturns) {
  const TempDir folder;
  write_text(folder / "x", "gamma\t2\r\nalpha\t0\r\n\r\nbeta\t1");
  const LabelIndex index = read_label_index(folder / "x");
  EXPECT_THAT((std::vector<std::string_view>{index.label(0), index.label(1), index.label(2)}),
              ElementsAre("alpha", "beta", "gamma"));
}

TEST(LabelIndexFile, NamesFileLineAndValueOfEveryDefect) {
  const TempDir folder;
  const auto expect = [&](const std::string& text, const std::string& words) {
    write_text(folder / "bad", text);
    EXPECT_THAT(message_of([&] { read_label_index(folder / "bad"); }), HasSubstr(words)) << text;
  };
  expect("a\t0\nb", "bad:2: \"b\" has no tab");
  expect("a\t0\nb\tone\n", "bad:2: \"one\" is not a number from 0");
  expect("a\t0\nb\t-1\n", "bad:2: \"-1\" is not a number from 0");
  expect("a\t0\tx\n", "bad:1: \"0\\x09x\" is not a number");
  expect("a\t0\na\t1\n", "bad:2: label \"a\" occurs twice");
  expect("a\t0\n\t1\n", "bad:2: the label is empty");
  expect("a\t0\nb\t2\n",
         "the number 2 of label \"b\" is out of range; the numbers of 2 labels must be 0 to 1");
  expect("a\t1\nb\t1\n", "the number 1 of label \"b\" occurs twice");
  expect(
      std::string(65'536, 'l') + "\t0\n",
      fmt::format("bad:1: the label \"{}...\" has 65536 bytes, more than 65535; an index file has "
                  "lines of label, tab and number",
                  std::string(40, 'l')));
  const std::string none = (folder / "none").string();
  EXPECT_EQ(message_of([&] { read_label_index(none); }),
            none + ": no such index file; check the path");
}

TEST(LabelIndexFile, OfTextThatIsImportedIsUtf8) {
  const TempDir folder;
  const std::filesystem::path file = folder / "x";
  write_text(file, "gr\xC3\xBCn\t0\ncaf\xE9\t1\n");
  EXPECT_EQ(
      message_of<DataError>([&] { read_label_index(file, LabelBytes::utf8); }),
      fmt::format("{}:2: \"caf\\xe9\": the byte 0xe9 is no UTF-8; convert the index first, for "
                  "example with iconv -f latin1 -t utf-8",
                  file.string()));
  EXPECT_EQ(read_label_index(file).label(1), "caf\xE9");
  write_text(file, "gr\xC3\xBCn\t0\n");
  EXPECT_EQ(read_label_index(file, LabelBytes::utf8).size(), 1);
}

TEST(LabelIndexFile, NamesTheFileWhenTheDiskIsFull) {
  const TempDir folder;
  const std::string file = (folder / "full").string();
  LabelIndex index;
  for (int i = 0; i < 3000; ++i) index.add(fmt::format("label {}", i));
  EXPECT_EQ(with_file_size_limit(
                8192, [&] { return message_of([&] { write_label_index(file, index); }); }),
            file + ": cannot write: File too large; check the disk's free space and permissions");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(LabelIndex, RefusesALabelThatIsTooLong) {
  LabelIndex index;
  index.add(std::string(65'535, 'l'));
  EXPECT_EQ(message_of([&] { index.add(std::string(65'536, 'l')); }),
            fmt::format("the label beginning \"{}\" has 65536 bytes, more than 65535; shorten it",
                        std::string(40, 'l')));
  EXPECT_EQ(index.size(), 1);
}

}  // namespace
}  // namespace norn
