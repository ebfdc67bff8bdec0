// SPDX-License-Identifier: Apache-2.0
// Splits by time: what goes where, in whatever order the lines come.
#include "norn/data/importer.h"
#include "norn/data/label_index.h"
#include "support.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::HasSubstr;

/// Example -> feature -> value.
using Contents = std::map<std::string, std::map<std::string, float>>;

struct Table {
  TempDir folder;
  PairImport options;

  explicit Table(const std::string& text) {
    write_text(folder / "in.csv", text);
    options.input = folder / "in.csv";
    options.output = folder / "data.nc";
    options.name = "shop";
    options.rules.text.time_column = "3";
    options.split.kind = SplitRule::Kind::time;
    options.split.borders = {*parse_time("2026-01-01")};
  }
  ImportReport run() { return import_pair(options, Log()); }

  Contents set(const std::string& part, int number) {
    const auto info =
        list_datasets(folder / fmt::format("data.{}.nc", part)).at(std::size_t(number));
    const LabelIndex features =
        read_label_index(options.features.empty() ? folder / "data.features" : options.features);
    const auto rows = dense_rows(*open_dataset(info, Residency::memory, Role::target), 16);
    const std::vector<std::string> labels = read_example_labels(info);
    Contents all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto& row = all[labels[i]];
      for (std::size_t c = 0; c < rows[i].size(); ++c)
        if (rows[i][c] != 0) row[std::string(features.label(Index(c)))] = rows[i][c];
    }
    return all;
  }
};

TEST(SplitByTime, WhatIsEarlierIsInputAndWhatIsLaterIsHeldOut) {
  Table table(
      "old,a,2025-06-01\n"
      "both,b,2026-01-01\n"  // the border itself is later
      "both,a,2025-12-31T23:59:59Z\n"
      "new,c,2026-02-01\n"
      "both,c,2026-03-01\n"
      "old,b,2025-01-01\n");
  const ImportReport report = table.run();
  EXPECT_EQ(table.set("train", 0), (Contents{{"both", {{"a", 1}}}, {"old", {{"a", 1}, {"b", 1}}}}));
  EXPECT_EQ(table.set("train", 1), table.set("train", 0));
  EXPECT_EQ(table.set("test", 0), (Contents{{"both", {{"a", 1}}}}));
  EXPECT_EQ(table.set("test", 1), (Contents{{"both", {{"b", 1}, {"c", 1}}}}));
  EXPECT_EQ(report.only_later, 1) << "of `new` nothing is known before";
  EXPECT_EQ(read_text(table.folder / "data.features"), "a\t0\nb\t1\nc\t2\n");
  EXPECT_EQ(read_text(table.folder / "data.train.examples"), "both\t0\nold\t1\n");
}

TEST(SplitByTime, TwoBordersHaveValidationBetweenThem) {
  Table table("u,a,1\nu,b,2\nu,c,3\nv,a,2\nv,b,3\nw,a,1\nw,c,3\n");
  table.options.split.borders = {*parse_time("2"), *parse_time("3")};
  const ImportReport report = table.run();
  EXPECT_EQ(report.only_later, 1);
  EXPECT_EQ(report.before_newest, 0);
  EXPECT_EQ(table.set("train", 0), (Contents{{"u", {{"a", 1}}}, {"w", {{"a", 1}}}}));
  EXPECT_EQ(table.set("validation", 1), (Contents{{"u", {{"b", 1}}}}));
  EXPECT_EQ(table.set("test", 0), table.set("train", 0)) << "inputs are training entries";
  EXPECT_EQ(table.set("test", 1), (Contents{{"u", {{"c", 1}}}, {"w", {{"c", 1}}}}));
}

TEST(SplitByTime, LeaveLastOutTakesTheNewestAndOfTiesTheLastFeature) {
  Table table("u,c,5\nu,a,9\nu,b,9\nu,d,1\nv,a,3\nw,b,2\nw,a,-4\n");
  table.options.split = {SplitRule::Kind::leave_last_out, SplitRule::Unit::entry, {}, 1};
  EXPECT_EQ(table.run().before_newest, 1) << "w's of time 2, where u has one of 9";
  EXPECT_EQ(table.set("test", 1), (Contents{{"u", {{"b", 1}}}, {"w", {{"b", 1}}}}));
  EXPECT_EQ(table.set("test", 0),
            (Contents{{"u", {{"a", 1}, {"c", 1}, {"d", 1}}}, {"w", {{"a", 1}}}}));
  EXPECT_EQ(table.set("train", 0).at("v"), (std::map<std::string, float>{{"a", 1}}));
}

TEST(SplitByTime, WhatIsNamedTwiceHasItsEarliestTime) {
  Table table("u,a,2025-01-01,2\nu,a,2026-05-01,3\nu,b,2026-06-01,1\nu,a,2024-01-01,4\n");
  table.options.rules.text.value_column = "4";
  table.options.input_kind = table.options.target_kind = ValueKind::analog;
  EXPECT_THAT(message_of([&] { table.run(); }),
              HasSubstr("example \"u\": the feature \"a\" occurs twice; remove one, or choose with "
                        "`duplicates` sum or first"));
  table.options.rules.duplicates = Duplicates::first;
  EXPECT_EQ(table.run().duplicates, 2);
  EXPECT_EQ(table.set("train", 0), (Contents{{"u", {{"a", 4}}}}));
  EXPECT_EQ(table.set("test", 1), (Contents{{"u", {{"b", 1}}}}));
  table.options.rules.duplicates = Duplicates::sum;
  table.run();
  EXPECT_EQ(table.set("train", 0), (Contents{{"u", {{"a", 9}}}}));
}

TEST(SplitByTime, AGivenIndexKeepsItsNumbersAndNewLabelsComeInOrder) {
  Table table("u,z,1\nu,a,5\nu,m,2\nv,b,1\nv,z,7\n");
  table.options.split.borders = {*parse_time("4")};
  write_text(table.folder / "f", "z\t0\nm\t1\n");
  table.options.features = table.folder / "f";
  table.options.feature_mode = FeatureMode::merge;
  table.run();
  EXPECT_EQ(read_text(table.folder / "f"), "z\t0\nm\t1\na\t2\nb\t3\n");
  EXPECT_EQ(table.set("test", 1), (Contents{{"u", {{"a", 1}}}, {"v", {{"z", 1}}}}));
  table.options.feature_mode = FeatureMode::existing;
  write_text(table.folder / "f", "z\t0\nm\t1\n");
  write_text(table.folder / "in.csv", "u,m,1\nu,a,5\nu,z,5\nv,b,1\n");
  EXPECT_EQ(table.run().unknown_features, 2);
  EXPECT_EQ(table.set("test", 1), (Contents{{"u", {{"z", 1}}}}));
}

TEST(SplitByTime, GivesTheSameBytesInAnyOrderOfLines) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const bool last = random() % 2 == 0, valued = random() % 2 == 0;
  // (example, feature, time, value); some twice, many at the same time.
  std::vector<std::tuple<std::string, std::string, int, float>> lines;
  for (int i = 0; i < 3000; ++i) {
    lines.emplace_back(fmt::format("u{}", random() % 150), fmt::format("i {}", random() % 80),
                       int(random() % 50), float(random() % 1000) / 7.0f);
  }
  const Microseconds border = 30 * 1'000'000;
  // What goes where, by a map.
  std::map<std::string, std::map<std::string, int>> first;
  for (const auto& [user, item, time, value] : lines) {
    const auto [at, fresh] = first[user].emplace(item, time);
    if (!fresh) at->second = std::min(at->second, time);
  }
  Contents train, test;
  for (const auto& [user, items] : first) {
    const auto newest = std::ranges::max_element(
        items, {}, [](const auto& item) { return std::tuple(item.second, item.first); });
    for (const auto& [item, time] : items) {
      const bool held =
          last ? items.size() > 1 && item == newest->first : time * 1'000'000 >= border;
      (held ? test : train)[user][item] = 1;
    }
  }
  std::erase_if(test, [&](const auto& row) { return train.count(row.first) == 0; });

  std::vector<std::string> bytes;
  for (int order = 0; order < 3; ++order) {
    std::string text;
    for (const auto& [user, item, time, value] : lines)
      text += fmt::format("{},{},{},{}\n", user, item, time, value);
    Table table(text);
    table.options.rules.duplicates = Duplicates::sum;
    table.options.rules.text.value_column = "4";
    if (valued) table.options.input_kind = table.options.target_kind = ValueKind::analog;
    table.options.split.borders = {border};
    if (last)
      table.options.split = {SplitRule::Kind::leave_last_out, SplitRule::Unit::entry, {}, 1};
    table.run();
    if (!valued) {
      EXPECT_EQ(table.set("train", 0), train);
      EXPECT_EQ(table.set("test", 1), test);
    }
    std::string all;
    for (const char* file :
         {"data.train.nc", "data.test.nc", "data.features", "data.train.examples"})
      all += read_text(table.folder / file);
    bytes.push_back(all);
    std::shuffle(lines.begin(), lines.end(), random);
  }
  EXPECT_TRUE(bytes[0] == bytes[1] && bytes[1] == bytes[2]);
}

TEST(SplitByTime, RefusesWhatHasNoTimesAndPartsThatAreEmpty) {
  Table table("u,a,1\nu,b,2\n");
  EXPECT_THAT(
      message_of([&] { table.run(); }),
      HasSubstr("data.test.nc: 0 examples with 0 input and 0 target entries are left for the "
                "test part"));
  write_text(table.folder / "in.txt", "u\ta:b\n");
  table.options.input = table.folder / "in.txt";
  EXPECT_THAT(message_of<UsageError>([&] { table.run(); }),
              HasSubstr("in.txt: is dsstne text, which has no times; a split by time needs csv or "
                        "tsv, with a column for them (`time_column`)"));
  for (const std::vector<Microseconds>& borders :
       {std::vector<Microseconds>{}, {2, 1}, {1, 1}, {1, 2, 3}}) {
    table.options.split.borders = borders;
    EXPECT_THAT(message_of<UsageError>([&] { table.run(); }),
                HasSubstr("`split` time: expected one time (test begins) or two, the earlier first "
                          "(validation begins, test begins)"));
  }
  table.options.split.borders = {1};
  table.options.split.unit = SplitRule::Unit::example;
  EXPECT_THAT(message_of<UsageError>([&] { table.run(); }),
              HasSubstr("a time split is by entry; drop `split_by`"));
}

}  // namespace
}  // namespace norn
