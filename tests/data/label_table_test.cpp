// SPDX-License-Identifier: Apache-2.0
// Labels of units go into files and come out of them, and bring data sets into a model's order.

#include "norn/data/label_table.h"

#include "norn/data/importer.h"
#include "src/base/sha256.h"
#include "src/data/dataset_writer.h"
#include "src/data/label_check.h"
#include "support.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <zlib.h>

namespace norn {
namespace {

using ::testing::HasSubstr;

LabelIndex index_of(const std::vector<std::string>& labels) {
  LabelIndex index;
  for (const std::string& label : labels) index.add(label);
  return index;
}

LabelTable table_of(const std::vector<std::string>& labels) {
  return LabelTable::of(index_of(labels));
}

std::vector<std::string> words_of(const LabelTable& table) {
  const LabelList list = table.list();
  std::vector<std::string> words;
  for (Index i = 0; i < list.size(); ++i) words.emplace_back(list[i]);
  return words;
}

/// Different words of odd lengths and any bytes but a line feed and zero.
std::vector<std::string> random_labels(std::mt19937& random, std::size_t count) {
  std::vector<std::string> labels;
  LabelIndex seen;
  while (labels.size() < count) {
    std::string label = fmt::format("{:x}", random() % (4 * count));
    for (std::size_t more = random() % 40; more > 0; --more)
      label += char(random() % 255 == 9 ? 'n' : random() % 255);
    std::ranges::replace_if(
        label, [](char c) { return c == '\n' || c == '\0'; }, '_');
    if (seen.add(label) == Index(labels.size())) labels.push_back(label);
  }
  return labels;
}

TEST(LabelTable, LabelsComeBackFromTheirCompressedLines) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const std::size_t count : {std::size_t(1), std::size_t(13), std::size_t(70'001)}) {
    const std::vector<std::string> labels = random_labels(random, count);
    const LabelTable table = table_of(labels);
    EXPECT_EQ(table.size(), Index(count));
    EXPECT_FALSE(table.are_numbers());
    EXPECT_EQ(words_of(table), labels);
    const LabelIndex index = table.index();
    for (std::size_t i = 0; i < count; i += 97) EXPECT_EQ(index.find(labels[i]), Index(i));
    std::string lines;
    for (const std::string& label : labels) lines += label + '\n';
    Sha256 sum;
    sum.add(lines);
    EXPECT_EQ(table.stored().sha256, sum.hex()) << "of `cut -f1 index | sha256sum`";
    EXPECT_EQ(table.stored().line_bytes, Index(lines.size()));
  }
}

TEST(LabelTable, NumbersAreKnownAsSuch) {
  const LabelTable table = table_of({"0", "1", "2"});
  EXPECT_TRUE(table.are_numbers());
  EXPECT_TRUE(table.stored().packed.empty());
  EXPECT_TRUE(table.same_as(LabelTable::numbers(3)));
  EXPECT_FALSE(table.same_as(LabelTable::numbers(4)));
  EXPECT_EQ(words_of(table), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_FALSE(table_of({"0", "01"}).are_numbers());
  EXPECT_FALSE(table_of({"1", "0"}).are_numbers());
}

TEST(LabelTable, OneLabelOrAnotherOrderMakeAnotherTable) {
  const LabelTable table = table_of({"a", "b", "c"});
  EXPECT_TRUE(table.same_as(table_of({"a", "b", "c"})));
  EXPECT_FALSE(table.same_as(table_of({"a", "c", "b"})));
  EXPECT_FALSE(table.same_as(table_of({"a", "b", "cc"})));
  EXPECT_FALSE(table.same_as(LabelTable()));
  EXPECT_FALSE(LabelTable().same_as(LabelTable())) << "what is unknown is not the same";
  EXPECT_TRUE(table.same_as(table.checksum_only()));
  EXPECT_FALSE(table.checksum_only().has_words());
}

TEST(LabelTable, ALineFeedIsRefusedAndDamageIsFound) {
  EXPECT_THAT(message_of<DataError>([] {
                table_of({"a", "b\nc"});
              }),
              HasSubstr("the label \"b\\x0ac\" of number 1 has a line feed, which a label may not; "
                        "rename it"));
  LabelTable::Stored stored = table_of({"apple", "pear", "plum"}).stored();
  stored.packed.at(stored.packed.size() / 2) = char(stored.packed[stored.packed.size() / 2] + 1);
  EXPECT_THAT(
      message_of<DataError>([&] { LabelTable(stored, "m.nc").list(); }),
      HasSubstr("m.nc: its labels of features are damaged; use an older copy of the file, or "
                "import again"));
  stored = table_of({"apple", "pear", "plum"}).stored();
  stored.count = 4;
  EXPECT_THAT(message_of<DataError>([&] { LabelTable(stored, "m.nc").list(); }),
              HasSubstr("damaged"));
  // "a" twice, by zlib without compression.
  const std::vector<int> twice = {0x78, 0x01, 0x01, 0x04, 0x00, 0xfb, 0xff, 'a',
                                  '\n', 'a',  '\n', 0x02, 0x72, 0x00, 0xd7};
  stored = {2, 4, "of two", {twice.begin(), twice.end()}};
  EXPECT_THAT(
      message_of<DataError>([&] { LabelTable(stored, "m.nc").index(); }),
      HasSubstr("m.nc: the label \"a\" of feature 1 is that of feature 0, too; import again"));
}

TEST(LabelTable, MatchesLikeAMapOnRandomLabels) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const std::size_t count : {std::size_t(3), std::size_t(500), std::size_t(30'000)}) {
    const std::vector<std::string> all = random_labels(random, 2 * count);
    std::vector<std::string> a(all.begin(), all.begin() + std::ptrdiff_t(count + count / 2));
    std::vector<std::string> b(all.begin() + std::ptrdiff_t(count / 2), all.end());
    std::shuffle(a.begin(), a.end(), random);
    std::shuffle(b.begin(), b.end(), random);
    // Either of the two may be the smaller one.
    std::vector<std::string>& cut = random() % 2 == 0 ? a : b;
    cut.resize(cut.size() - random() % cut.size());
    std::map<std::string, Column> naive;
    for (std::size_t i = 0; i < b.size(); ++i) naive[b[i]] = Column(i);
    const UnitMatch match = match_units(table_of(a), table_of(b));
    ASSERT_EQ(match.to.size(), a.size());
    Index unknown = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto found = naive.find(a[i]);
      EXPECT_EQ(match.unit_of(Column(i)),
                found == naive.end() ? LabelIndex::kUnknown : found->second);
      unknown += found == naive.end();
    }
    EXPECT_EQ(match.unknown, unknown);
  }
}

TEST(LabelTable, NumbersMatchNumbersAndTheirWords) {
  const UnitMatch narrower = match_units(LabelTable::numbers(5), LabelTable::numbers(3));
  EXPECT_EQ(narrower.unknown, 2);
  EXPECT_EQ(narrower.unit_of(2), 2u);
  EXPECT_EQ(narrower.unit_of(3), LabelIndex::kUnknown);
  EXPECT_EQ(match_units(LabelTable::numbers(3), LabelTable::numbers(5)).unknown, 0);
  const UnitMatch words = match_units(table_of({"2", "x", "0"}), LabelTable::numbers(3));
  EXPECT_EQ(words.to, (std::vector<Column>{2, LabelIndex::kUnknown, 0}));
  EXPECT_EQ(words.unknown, 1);
}

TEST(LabelTable, NumbersThatNobodyHasMemoryForAreMatched) {
  constexpr Index kMany = (Index(1) << 32) - 2;
  const LabelTable many = LabelTable::numbers(kMany);
  const UnitMatch same = match_units(many, LabelTable::numbers(60));
  EXPECT_EQ(same.unit_of(59), 59u);
  EXPECT_EQ(same.unit_of(60), LabelIndex::kUnknown);
  EXPECT_EQ(same.unknown, kMany - 60);
  const UnitMatch words =
      match_units(many, table_of({"x", "4294967293", "07", "7", "", "-1", "+3", "4294967294"}));
  EXPECT_EQ(words.unit_of(4294967293u), 1u);
  EXPECT_EQ(words.unit_of(7), 3u);
  for (const Column feature : {0u, 1u, 3u, 8u, 4294967292u})
    EXPECT_EQ(words.unit_of(feature), LabelIndex::kUnknown) << feature;
  EXPECT_EQ(words.unknown, kMany - 2);
  const UnitMatch back = match_units(table_of({"9", "a", "4294967293"}), many);
  EXPECT_EQ(back.to, (std::vector<Column>{9, LabelIndex::kUnknown, 4294967293u}));
}

// What zlib makes of these lines, as a file has it.
LabelTable::Stored packed_lines(const std::string& lines, Index count) {
  LabelTable::Stored stored{count, Index(lines.size()), std::string(64, 'a'), {}};
  uLongf size = compressBound(uLong(lines.size()));
  stored.packed.resize(size);
  compress(reinterpret_cast<Bytef*>(stored.packed.data()), &size,
           reinterpret_cast<const Bytef*>(lines.data()), uLong(lines.size()));
  stored.packed.resize(size);
  return stored;
}

std::string repeated(const std::string& line, std::size_t times) {
  std::string lines;
  for (std::size_t i = 0; i < times; ++i) lines += line;
  return lines;
}

// The memory that this process has had at most, in bytes.
Index peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Index(usage.ru_maxrss) << 10;
}

TEST(LabelTable, LabelsThatCannotBeTakeNoMemory) {
  constexpr Index kLines = Index(1) << 27;
  // Made once, by pieces: a string of all of them would be what is measured.
  const std::string piece(std::size_t(1) << 20, '\n');
  LabelTable::Stored bomb{kLines, kLines, std::string(64, 'a'), {}};
  z_stream stream{};
  ASSERT_EQ(deflateInit(&stream, 9), Z_OK);
  std::vector<char> out(std::size_t(1) << 20);
  for (Index done = 0; done < kLines; done += Index(piece.size())) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream.avail_in = uInt(piece.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = uInt(out.size());
    deflate(&stream, done + Index(piece.size()) < kLines ? Z_NO_FLUSH : Z_FINISH);
    bomb.packed.insert(bomb.packed.end(), out.data(), out.data() + out.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  const Index before = peak_memory();
  const auto damage = [](const LabelTable::Stored& stored) {
    const std::string list = message_of<DataError>([&] { LabelTable(stored, "m.nc").list(); });
    EXPECT_NE(message_of<DataError>([&] { LabelTable(stored, "m.nc").index(); }), "");
    EXPECT_NE(message_of<DataError>([&] { check_labels(LabelTable(stored, "m.nc"), "m.nc"); }), "");
    return list;
  };
  EXPECT_THAT(damage(bomb), HasSubstr("of feature 1 is that of feature 0, too"));
  bomb.count = 60;
  EXPECT_NE(damage(bomb), "");
  bomb.line_bytes = 60;  // what list() goes by
  EXPECT_THAT(damage(bomb),
              HasSubstr("labels of features are damaged: they have more than 60 bytes"));
  bomb.line_bytes = Index(bomb.packed.size());
  EXPECT_THAT(damage(bomb), HasSubstr("are damaged: they"));
  EXPECT_LT(peak_memory() - before, Index(16) << 20);
}

TEST(LabelTable, WhatNoLabelHasIsDamage) {
  const auto damage = [](LabelTable::Stored stored) {
    return message_of<DataError>([&] { LabelTable(std::move(stored), "m.nc").list(); });
  };
  EXPECT_THAT(damage(packed_lines("a\nb\nc\n", 2)), HasSubstr("damaged: they are more than 2"));
  EXPECT_THAT(damage(packed_lines("a\nb\nc", 3)), HasSubstr("damaged; use"));
  EXPECT_THAT(damage(packed_lines(std::string("a\nb\0\n", 5), 2)),
              HasSubstr("damaged: one has a byte of zero"));
  const std::string longest(LabelIndex::kLongestLabel, 'x');
  EXPECT_EQ(LabelTable(packed_lines(longest + "\na\n", 2), "m.nc").list()[0], longest);
  for (const std::string& label : {longest + "x", repeated(longest, 40)}) {
    EXPECT_THAT(damage(packed_lines(label + "\n", 1)), HasSubstr("one has more than 65535 bytes"));
    EXPECT_THAT(damage(packed_lines("a\n" + label, 1)), HasSubstr("one has more than 65535 bytes"));
  }
  LabelTable::Stored more = packed_lines("a\nb\n", 2);
  more.packed.push_back('x');
  EXPECT_THAT(damage(more), HasSubstr("damaged: other bytes follow their end"));
  more.packed.resize(more.packed.size() - 2);
  EXPECT_THAT(damage(more), HasSubstr("damaged; use"));
  EXPECT_THAT(message_of<DataError>([] {
                table_of({"a", std::string("b\0", 2)});
              }),
              HasSubstr("of number 1 has a byte of zero, which a label may not; rename it"));
}

/// A random data set of labelled units, as rows of label -> value.
struct LabelledRows {
  std::vector<std::map<std::string, float>> rows;
  std::vector<std::string> labels;
  bool valued;

  /// Writes the set with units in the order of its labels, its rows in any order of entries.
  DatasetInfo write(const std::filesystem::path& file, std::mt19937& random) const {
    const LabelIndex index = index_of(labels);
    DatasetInfo info;
    info.name = "set";
    info.sparse = true;
    info.boolean = !valued;
    info.type = valued ? ElementType::float32 : ElementType::uint32;
    info.extent[0] = Index(labels.size());
    info.examples = info.unique_examples = Index(rows.size());
    info.unit_labels = LabelTable::of(index);
    std::vector<Index> sizes;
    std::vector<Column> columns;
    std::vector<float> values;
    for (const auto& row : rows) {
      std::vector<std::pair<std::string, float>> entries;
      for (const auto& entry : row)
        if (index.find(entry.first)) entries.push_back(entry);
      std::shuffle(entries.begin(), entries.end(), random);
      sizes.push_back(Index(entries.size()));
      for (const auto& [label, value] : entries) {
        columns.push_back(Column(*index.find(label)));
        if (valued) values.push_back(value);
      }
    }
    info.entries = Index(columns.size());
    DatasetWriter writer(file, {info});
    writer.append_rows(0, sizes, columns, values);
    writer.commit();
    return list_datasets(file).at(0);
  }
};

std::vector<Index> random_examples(Index count, std::mt19937& random) {
  std::vector<Index> examples(std::size_t(count) * 2, 0);
  for (Index& example : examples) example = Index(random() % std::size_t(count));
  return examples;
}

void expect_same_batches(Dataset& a, Dataset& b, std::mt19937& random) {
  const std::vector<Index> examples = random_examples(a.info().examples, random);
  HostBatch x, y;
  a.gather(examples, x);
  b.gather(examples, y);
  const CsrView p = x.csr(), q = y.csr();
  ASSERT_EQ(p.cols, q.cols);
  ASSERT_EQ(p.entries(), q.entries());
  for (Index r = 0; r <= p.rows; ++r) ASSERT_EQ(p.row_begin[r], q.row_begin[r]);
  for (RowOffset i = 0; i < p.entries(); ++i) ASSERT_EQ(p.column[i], q.column[i]);
  for (RowOffset i = 0; p.value && i < p.entries(); ++i) ASSERT_EQ(p.value[i], q.value[i]);
}

TEST(MatchedDataset, IsWhatTheModelsOwnIndexWouldHaveMade) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TempDir folder;
  for (const bool valued : {false, true}) {
    for (const std::size_t absent : {std::size_t(0), std::size_t(9)}) {
      // The model does not have the first `absent` labels, and the data not the last ones.
      const std::vector<std::string> all = random_labels(random, 60);
      LabelledRows data{{}, {all.begin(), all.end() - 7}, valued};
      std::vector<std::string> units(all.begin() + std::ptrdiff_t(absent), all.end());
      std::shuffle(data.labels.begin(), data.labels.end(), random);
      std::shuffle(units.begin(), units.end(), random);
      for (int r = 0; r < 83; ++r) {
        auto& row = data.rows.emplace_back();
        for (std::size_t k = random() % 12; k > 0; --k)
          row[data.labels[random() % data.labels.size()]] = float(random() % 100) / 7.0f;
      }
      data.rows[5].clear();
      const DatasetInfo info = data.write(folder / "data.nc", random);
      LabelledRows model = data;
      model.labels = units;
      const DatasetInfo expected_info = model.write(folder / "model.nc", random);
      const auto match = std::make_shared<const UnitMatch>(
          match_units(info.unit_labels, expected_info.unit_labels));
      EXPECT_EQ(match->unknown, Index(absent));
      for (const Residency residency : {Residency::memory, Residency::stream}) {
        for (const Role role : {Role::input, Role::target}) {
          const auto expected = open_dataset(expected_info, Residency::memory, role);
          const auto set = open_dataset(info, residency, role, match);
          EXPECT_EQ(set->info().width(), Index(units.size()));
          EXPECT_TRUE(set->info().unit_labels.same_as(expected_info.unit_labels));
          EXPECT_EQ(set->info().entries, expected_info.entries);
          EXPECT_EQ(set->info().left_out, info.entries - expected_info.entries);
          EXPECT_EQ(set->info().empty_rows, expected->info().empty_rows);
          EXPECT_EQ(set->row_entries(), expected->row_entries());
          expect_same_batches(*set, *expected, random);
          HostBatch rows, wanted;
          set->read_rows(3, 70, rows);
          expected->read_rows(3, 70, wanted);
          EXPECT_EQ(rows.csr().entries(), wanted.csr().entries());
        }
      }
    }
  }
}

TEST(MatchedDataset, ADenseSetIsRefused) {
  const TempDir folder;
  DatasetInfo info;
  info.name = "dense";
  info.type = ElementType::float32;
  info.extent[0] = 2;
  info.examples = info.unique_examples = 1;
  info.unit_labels = table_of({"a", "b"});
  {
    DatasetWriter writer(folder / "x.nc", {info});
    writer.append_values(0, std::vector<float>{1.0f, 2.0f});
    writer.commit();
  }
  const DatasetInfo read = list_datasets(folder / "x.nc").at(0);
  const auto match =
      std::make_shared<const UnitMatch>(match_units(read.unit_labels, table_of({"b", "a"})));
  EXPECT_THAT(
      message_of<DataError>([&] { open_dataset(read, Residency::memory, Role::input, match); }),
      HasSubstr(
          "data set \"dense\": its units are labelled in another order than the model's, and a "
          "dense set is not put in order; write it with the units of the model"));
}

struct Importing {
  TempDir folder;
  PairImport options;
  explicit Importing(const std::string& text) {
    write_text(folder / "in.txt", text);
    options.input = folder / "in.txt";
    options.output = folder / "data.nc";
    options.name = "shop";
  }
  std::vector<DatasetInfo> run() {
    import_pair(options, Log());
    return list_datasets(folder / "data.nc");
  }
};

TEST(ImportedLabels, StandInTheFileOnceForBothSets) {
  Importing shop("u1\tmilk:bread\nu2\tbread:tea\n");
  const auto sets = shop.run();
  for (const DatasetInfo& set : sets)
    EXPECT_EQ(words_of(set.unit_labels), (std::vector<std::string>{"milk", "bread", "tea"}));
  const std::string bytes = read_text(shop.folder / "data.nc");
  EXPECT_THAT(bytes, HasSubstr("featureLabelsOf1"));
  EXPECT_THAT(bytes, HasSubstr("featureLabels0"));
  EXPECT_EQ(bytes.find("featureLabels1"), std::string::npos);
}

TEST(ImportedLabels, OfTargetsOfTheirOwnAreTheirOwn) {
  Importing shop("red,blue 0:1 4:2\nblue 2:1\n");
  shop.options.rules.text.format = TextFormat::named("libsvm");
  const auto sets = shop.run();
  EXPECT_TRUE(sets[0].unit_labels.same_as(LabelTable::numbers(5)));
  EXPECT_EQ(words_of(sets[1].unit_labels), (std::vector<std::string>{"red", "blue"}));
}

TEST(ImportedLabels, CanBeKeptAsAChecksumAlone) {
  Importing shop("u1\tmilk:bread\nu2\tbread:tea\n");
  const LabelTable full = shop.run().at(0).unit_labels;
  shop.options.rules.keep_labels = false;
  const LabelTable secret = shop.run().at(0).unit_labels;
  EXPECT_TRUE(secret.same_as(full));
  EXPECT_FALSE(secret.has_words());
}

TEST(ImportedLabels, TellSetsOfAnotherIndexApart) {
  DatasetInfo a, b;
  a.name = "a";
  b.name = "b";
  a.sparse = b.sparse = true;
  a.extent[0] = b.extent[0] = 3;
  EXPECT_TRUE(a.shares_units_with(b)) << "as far as can be told";
  a.unit_labels = table_of({"x", "y", "z"});
  EXPECT_TRUE(a.shares_units_with(b));
  b.unit_labels = table_of({"x", "z", "y"});
  EXPECT_FALSE(a.shares_units_with(b));
  b.unit_labels = table_of({"x", "y", "z"});
  EXPECT_TRUE(a.shares_units_with(b));
}

}  // namespace
}  // namespace norn
