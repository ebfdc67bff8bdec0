// SPDX-License-Identifier: Apache-2.0
// Data sets between texts, files and arrays.
#include "norn/run/data.h"

#include "norn/base/error.h"
#include "norn/run/train.h"
#include "src/data/dataset.h"
#include "tests/data/support.h"
#include "tests/support/message_of.h"

#include <limits>
#include <random>

#include <gmock/gmock.h>

namespace norn::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DataDoor : public testing::Test {
 protected:
  ImportOptions import_of(const std::string& text, const std::string& name = "text.txt") const {
    write_text(folder_ / name, text);
    ImportOptions options;
    options.input = folder_ / name;
    options.output = folder_ / "data.nc";
    options.name = "shop";
    return options;
  }

  TempDir folder_;
};

std::vector<std::string_view> views_of(const LabelIndex& labels) {
  std::vector<std::string_view> views;
  for (Index number = 0; number < labels.size(); ++number) views.push_back(labels.label(number));
  return views;
}

/// The rows that entries make, with names to write them under.
struct RowsOf {
  explicit RowsOf(const TextEntries& entries) {
    const Index examples = entries.example_labels.size();
    begin.assign(std::size_t(examples) + 1, 0);
    for (const std::uint32_t example : entries.examples) ++begin[example + 1];
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    std::vector<RowOffset> to(begin.begin(), begin.end() - 1);
    columns.resize(entries.features.size());
    values.resize(entries.values.size());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto place = std::size_t(to[entries.examples[i]]++);
      columns[place] = entries.features[i];
      if (!values.empty()) values[place] = entries.values[i];
    }
  }
  MemorySet set(const std::string& name, Index width) const {
    MemorySet made{.name = name, .width = width, .row_begin = begin, .columns = columns};
    made.values = values;
    return made;
  }
  std::vector<RowOffset> begin;
  std::vector<Column> columns;
  std::vector<float> values;
};

TEST_F(DataDoor, EntriesThatAreReadAndWrittenAreTheBytesOfTheImporter) {
  std::mt19937 random(fresh_seed());
  std::string text = "user,item,rating\n";
  for (int item = 0; item < 40; ++item)
    for (int user = 0; user < 30; ++user)  // no example's lines follow each other
      if (random() % 3 == 0)
        text += "u" + std::to_string(user) + ",\"i, " + std::to_string(item) + "\"," +
                std::to_string(int(random() % 9) - 4) + "\n";
  ImportOptions options = import_of(text, "text.csv");
  options.type = options.target_type = "analog";
  options.header = "yes";
  import_files(options);
  const TextEntries entries = read_entries(options);
  EXPECT_EQ(text_format(options), "csv");
  EXPECT_EQ(entries.features.size(), entries.values.size());

  const RowsOf rows(entries);
  const LabelTable labels = LabelTable::of(entries.feature_labels);
  std::vector<MemorySet> sets;
  for (const char* name : {"shop_input", "shop_output"}) {
    sets.push_back(rows.set(name, entries.feature_labels.size()));
    sets.back().unit_labels = labels;
  }
  write_sets(folder_ / "again.nc", sets, views_of(entries.example_labels));
  EXPECT_EQ(read_text(folder_ / "again.nc"), read_text(folder_ / "data.nc"));
}

TEST_F(DataDoor, SharesOutAsTheImporterDoes) {
  std::mt19937 random(fresh_seed());
  std::string text;
  for (int user = 0; user < 25; ++user) {
    text += "u" + std::to_string(user) + "\t";
    for (int item = 0; item < 30; ++item)
      if (item == user || random() % 4 == 0)
        text += (text.back() == '\t' ? "i" : ":i") + std::to_string(item);
    text += '\n';
  }
  ImportOptions options = import_of(text);
  const TextEntries entries = read_entries(options);
  const RowsOf rows(entries);
  const auto set = rows.set("shop", entries.feature_labels.size());
  const auto labels = views_of(entries.example_labels);
  for (const char* by : {"entry", "pair", "example"}) {
    options.split = "ratio:0.6/0.4";
    options.split_by = by;
    options.seed = random();
    const ImportReport report = import_files(options);
    const SharedOut out = share_out(options, set, labels);
    EXPECT_THAT(out.parts, ElementsAre("train", "test"));
    EXPECT_EQ(out.by_entry, std::string(by) != "example");
    const auto trained = std::ranges::count(out.part, 0);
    EXPECT_EQ(trained, out.by_entry ? report.files[0].target_entries : report.files[0].examples)
        << by;
  }
}

TEST_F(DataDoor, ReadsTimesForSplitsByTime) {
  ImportOptions options =
      import_of("a,x,1,2026-01-01\na,y,1,2026-01-03\nb,x,1,2026-01-02\n", "t.csv");
  EXPECT_TRUE(read_entries(options).times.empty());
  options.split = "time:2026-01-02";
  const TextEntries entries = read_entries(options);
  ASSERT_EQ(entries.times.size(), 3u);
  EXPECT_EQ(entries.times[1] - entries.times[0], 2 * 24 * 3600 * Microseconds(1'000'000));
  const RowsOf rows(entries);
  const SharedOut out = share_out(options, rows.set("shop", 2), {}, entries.times);
  EXPECT_THAT(out.part, ElementsAre(0, 1, 1));
}

TEST_F(DataDoor, FilesComeBackAsArraysWithTheirLabels) {
  ImportOptions options = import_of("ann\tsoap,2:tea,-1\nbob\ttea,0.5\n");
  options.type = "analog";
  import_files(options);
  const FileSets found = read_sets(options.output);
  ASSERT_EQ(found.sets.size(), 2u);
  EXPECT_EQ(found.sets[0].name, "shop_input");
  EXPECT_THAT(found.sets[0].row_begin, ElementsAre(0, 2, 3));
  EXPECT_THAT(found.sets[0].columns, ElementsAre(0u, 1u, 1u));
  EXPECT_THAT(found.sets[0].values, ElementsAre(2.f, -1.f, 0.5f));
  EXPECT_TRUE(found.sets[1].values.empty());
  EXPECT_EQ(found.sets[1].unit_labels.list()[1], "tea");
  EXPECT_THAT(found.example_labels[1], ElementsAre("ann", "bob"));
}

TEST_F(DataDoor, UnitsOfTheirOwnAndWidthsSurviveAFile) {
  const std::vector<RowOffset> begin = {0, 0, 2};
  const std::vector<Column> columns = {6, 1};
  MemorySet set{.name = "odd", .width = 7, .row_begin = begin, .columns = columns};
  set.own_units = set.ignore_absent = true;
  write_sets(folder_ / "odd.nc", {&set, 1}, {});
  const FileSets found = read_sets(folder_ / "odd.nc");
  EXPECT_EQ(found.sets[0].width, 7);
  EXPECT_TRUE(found.sets[0].own_units);
  EXPECT_TRUE(found.sets[0].ignore_absent);
  EXPECT_THAT(found.sets[0].columns, ElementsAre(1u, 6u));
  EXPECT_TRUE(found.example_labels[0].empty());
}

TEST_F(DataDoor, SaysWhatCannotBeWritten) {
  const std::vector<RowOffset> begin = {0, 2}, longer = {0, 1, 2};
  const std::vector<Column> columns = {0, 5};
  const std::vector<float> values = {1.f, std::numeric_limits<float>::quiet_NaN()};
  const MemorySet good{.name = "a", .width = 6, .row_begin = begin, .columns = columns};
  const auto fault = [&]<typename E>(std::vector<MemorySet> sets, E*) {
    const std::vector<std::string_view> labels = {"ann"};
    const std::string message = message_of<E>([&] { write_sets(folder_ / "x.nc", sets, labels); });
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.nc"));
    return message;
  };
  DataError* const data = nullptr;
  UsageError* const usage = nullptr;
  EXPECT_EQ(fault({}, usage), "`sets` is empty; a file needs at least one data set");
  MemorySet bad = good;
  bad.columns = {};
  EXPECT_THAT(fault({bad}, data), HasSubstr("x.nc: data set \"a\" has 1 examples and 0 entries; a "
                                            "file needs at least one of each"));
  bad = good;
  bad.width = 5;
  EXPECT_EQ(fault({bad}, data), "data set \"a\": entry 1 has column 5, expected 0 to 4");
  bad = good;
  bad.values = values;
  EXPECT_EQ(fault({bad}, data),
            "data set \"a\": the value of entry 1 is nan, expected a finite number");
  bad = good;
  bad.weights = std::span(values).first(1);
  EXPECT_EQ(fault({bad}, usage),
            "data set \"a\" is dense or has weights; sparse sets without "
            "weights can be written");
  bad = good;
  bad.name = "b";
  bad.row_begin = longer;
  EXPECT_EQ(fault({good, bad}, data),
            "data set \"a\" has 1 examples, \"b\" has 2, and 1 labels were given; all sets of a "
            "file have the same examples");
}

TEST_F(DataDoor, SaysWhichTextsAndSplitsItDoesNotTake) {
  EXPECT_THAT(
      message_of<UsageError>([&] { read_entries(import_of("1 0:1\n", "a.svm")); }),
      HasSubstr("a.svm: LibSVM text has numbers for features and is imported whole; use importer"));
  EXPECT_THAT(message_of<DataError>([&] { read_entries(import_of("a\tx\nb\ty\na\tz\n")); }),
              HasSubstr("text.txt:3: example \"a\" has been on an earlier line; put its features "
                        "on one line"));
  EXPECT_THAT(message_of<DataError>([&] { read_entries(import_of("a\tx\nb\t\n")); }),
              HasSubstr("text.txt:2: example \"b\" has no features; remove it, or choose with "
                        "`empty_rows` drop"));
  ImportOptions options = import_of("a\tx\n");
  options.split = "ratio:1/1";
  options.split_by = "pair";
  const std::vector<RowOffset> begin = {0, 1, 2};
  const std::vector<Column> columns = {0, 0};
  const MemorySet set{.name = "a", .width = 1, .row_begin = begin, .columns = columns};
  EXPECT_EQ(message_of<UsageError>([&] { share_out(options, set, {}); }),
            "`split_by` pair needs the labels of 2 examples, 0 are given");
  options.split = "leave-last-out";
  options.split_by = "entry";
  EXPECT_EQ(message_of<UsageError>([&] { share_out(options, set, {}); }),
            "`split` leave-last-out needs the times of 2 entries, 0 are given");
}

TEST_F(DataDoor, DescribesModelsAndDataByTheSameChecksums) {
  const ImportOptions options = import_of("ann\tsoap:tea\nbob\ttea\ncleo\tsoap\n");
  import_files(options);
  const std::string data = describe_file(options.output);
  EXPECT_THAT(data, HasSubstr("\"kind\": \"data\""));
  TrainOptions train;
  train.recipe = "sigmoid";
  train.inputs = {options.output};
  train.epochs = 1;
  train.device.kind = DeviceChoice::Kind::cpu;
  train.model = folder_ / "model.nc";
  run::train(train);
  const std::string model = describe_file(folder_ / "model.nc");
  EXPECT_THAT(model, HasSubstr("\"kind\": \"model\""));
  EXPECT_THAT(model, HasSubstr("\"epoch\": 1"));
  const std::size_t at = data.find("\"checksum\"");
  ASSERT_NE(at, std::string::npos);
  EXPECT_THAT(model, HasSubstr(data.substr(at, 30)));
  EXPECT_THAT(message_of<DataError>([&] { describe_file(options.input); }), HasSubstr("text.txt"));
}

}  // namespace
}  // namespace norn::run
