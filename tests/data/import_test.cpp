// SPDX-License-Identifier: Apache-2.0
// Imports by the library: joins, orders, indexes, splits, and what is refused.
#include "data/row_table.h"
#include "norn/data/importer.h"
#include "norn/data/label_index.h"
#include "support.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

namespace norn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A data set as text: example label -> feature label -> value.
using Contents = std::map<std::string, std::map<std::string, float>>;

Contents contents(const std::filesystem::path& file, int number, const LabelIndex& features) {
  const DatasetInfo info = list_datasets(file).at(std::size_t(number));
  const std::vector<std::string> labels = read_example_labels(info);
  const auto set = open_dataset(info, Residency::memory, Role::target);
  Contents all;
  const auto rows = dense_rows(*set, 16);
  EXPECT_EQ(rows.size(), labels.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& row = all[labels[i]];
    for (std::size_t c = 0; c < rows[i].size(); ++c) {
      if (rows[i][c] != 0) row[std::string(features.label(Index(c)))] = rows[i][c];
    }
  }
  EXPECT_EQ(all.size(), labels.size());
  return all;
}

struct Pair {
  TempDir folder;
  PairImport options;
  Pair(const std::string& input, const std::string& target = {}) {
    write_text(folder / "in.txt", input);
    options.input = folder / "in.txt";
    if (!target.empty()) {
      write_text(folder / "out.txt", target);
      options.target = folder / "out.txt";
    }
    options.output = folder / "data.nc";
    options.name = "shop";
  }
  ImportReport run() { return import_pair(options, Log()); }
  std::string error() {
    return message_of([&] { run(); });
  }
  Contents set(int number, const std::string& file = "data.nc",
               const std::string& features = "data.features") {
    return contents(folder / file, number, read_label_index(folder / features));
  }
};

TEST(ImportPair, JoinsByExampleLabelNotByPosition) {
  Pair pair("a\tx:y\nb\tz\nc\tx\n", "c\tz:y\nd\tx\na\tw\n");
  pair.options.rules.missing = MissingExamples::drop;
  const ImportReport report = pair.run();
  EXPECT_EQ(report.joined, 2);
  EXPECT_EQ(report.only_input, 1);
  EXPECT_EQ(report.only_target, 1);
  EXPECT_EQ(report.input_rows, 3);
  EXPECT_EQ(report.target_width, 4) << "targets share the features of the input";
  EXPECT_EQ(pair.set(0), (Contents{{"a", {{"x", 1}, {"y", 1}}}, {"c", {{"x", 1}}}}));
  EXPECT_EQ(pair.set(1), (Contents{{"a", {{"w", 1}}}, {"c", {{"y", 1}, {"z", 1}}}}));
  EXPECT_EQ(read_text(pair.folder / "data.examples"), "a\t0\nc\t1\n");
  EXPECT_EQ(read_text(pair.folder / "data.features"), "x\t0\ny\t1\nz\t2\nw\t3\n");
  const auto infos = list_datasets(pair.folder / "data.nc");
  EXPECT_EQ(infos.at(0).name, "shop_input");
  EXPECT_EQ(infos.at(1).name, "shop_output");
}

TEST(ImportPair, MissingExamplesAreRefusedOrEmpty) {
  Pair pair("a\tx\nb\ty\n", "b\tx\nc\ty\n");
  EXPECT_THAT(pair.error(), HasSubstr("out.txt: example \"a\" of "));
  EXPECT_THAT(pair.error(),
              HasSubstr("is missing; add it, or choose with `missing_examples` drop or empty"));
  pair.options.rules.missing = MissingExamples::empty;
  EXPECT_EQ(pair.run().joined, 3);
  EXPECT_EQ(pair.set(0), (Contents{{"a", {{"x", 1}}}, {"b", {{"y", 1}}}, {"c", {}}}));
  EXPECT_EQ(pair.set(1), (Contents{{"a", {}}, {"b", {{"x", 1}}}, {"c", {{"y", 1}}}}));
}

TEST(ImportPair, AGivenIndexFixesTheFeatures) {
  Pair pair("a\tx:new:y\nb\ty\n");
  write_text(pair.folder / "f", "y\t0\nx\t1\nunused\t2\n");
  pair.options.features = pair.folder / "f";
  const ImportReport report = pair.run();
  EXPECT_EQ(report.unknown_features, 1);
  EXPECT_EQ(report.input_width, 3);
  EXPECT_EQ(pair.set(0, "data.nc", "f"),
            (Contents{{"a", {{"x", 1}, {"y", 1}}}, {"b", {{"y", 1}}}}));
  EXPECT_EQ(read_text(pair.folder / "f"), "y\t0\nx\t1\nunused\t2\n");
  pair.options.feature_mode = FeatureMode::merge;
  EXPECT_EQ(pair.run().input_width, 4);
  EXPECT_EQ(read_text(pair.folder / "f"), "y\t0\nx\t1\nunused\t2\nnew\t3\n");
  pair.options.feature_mode = FeatureMode::fresh;
  EXPECT_EQ(pair.run().input_width, 3);
  EXPECT_EQ(read_text(pair.folder / "f"), "x\t0\nnew\t1\ny\t2\n");
}

TEST(ImportPair, RowsThatAreEmptyOrRepeatedFollowTheRules) {
  Pair empty("a\tx\nb\t\nc\ty\n");
  EXPECT_THAT(empty.error(),
              HasSubstr("in.txt:2: example \"b\" has no features; remove it, or choose "
                        "with `empty_rows` drop or keep"));
  empty.options.rules.empty_rows = EmptyRows::drop;
  EXPECT_EQ(empty.run().empty_rows, 1);
  EXPECT_EQ(empty.set(0).size(), 2u);
  empty.options.rules.empty_rows = EmptyRows::keep;
  empty.run();
  EXPECT_EQ(empty.set(0), (Contents{{"a", {{"x", 1}}}, {"b", {}}, {"c", {{"y", 1}}}}));
  write_text(empty.folder / "f", "x\t0\n");
  empty.options.features = empty.folder / "f";
  empty.options.rules.empty_rows = EmptyRows::error;
  EXPECT_THAT(empty.error(), HasSubstr("example \"b\" has no features that the given index knows"));

  Pair repeated("a\tx:y\nb\ty\na\tz:x\n");
  EXPECT_THAT(repeated.error(), HasSubstr("in.txt:3: example \"a\" has been on an earlier line"));
  repeated.options.rules.repeated = RepeatedExamples::last;
  EXPECT_EQ(repeated.run().repeated_examples, 1);
  EXPECT_EQ(repeated.set(0), (Contents{{"a", {{"x", 1}, {"z", 1}}}, {"b", {{"y", 1}}}}));
  repeated.options.rules.repeated = RepeatedExamples::merge;
  EXPECT_THAT(repeated.error(), HasSubstr("example \"a\": the feature \"x\" occurs twice"));
  repeated.options.rules.duplicates = Duplicates::first;
  EXPECT_EQ(repeated.run().duplicates, 1);
  EXPECT_EQ(repeated.set(0), (Contents{{"a", {{"x", 1}, {"y", 1}, {"z", 1}}}, {"b", {{"y", 1}}}}));
}

TEST(ImportPair, DuplicateFeaturesFollowTheRules) {
  Pair pair("a\tx,1:y,2:x,4\n");
  pair.options.input_kind = pair.options.target_kind = ValueKind::analog;
  EXPECT_THAT(pair.error(),
              HasSubstr("in.txt:1: example \"a\": the feature \"x\" occurs twice; remove one, "
                        "or choose with `duplicates` sum or first"));
  EXPECT_FALSE(std::filesystem::exists(pair.folder / "data.nc"));
  pair.options.rules.duplicates = Duplicates::sum;
  pair.run();
  EXPECT_EQ(pair.set(1), (Contents{{"a", {{"x", 5}, {"y", 2}}}}));
  pair.options.rules.duplicates = Duplicates::first;
  pair.run();
  EXPECT_EQ(pair.set(0), (Contents{{"a", {{"x", 1}, {"y", 2}}}}));
}

TEST(ImportPair, InputAndTargetMayDifferInKindAndFeatures) {
  Pair pair("a\tx,0.5\nb\ty,2\n", "b\tB\na\tA\n");
  pair.options.input_kind = ValueKind::analog;
  pair.options.separate_targets = true;
  const ImportReport report = pair.run();
  EXPECT_EQ(report.input_width, 2);
  EXPECT_EQ(report.target_width, 2);
  EXPECT_EQ(pair.set(0), (Contents{{"a", {{"x", 0.5f}}}, {"b", {{"y", 2}}}}));
  EXPECT_EQ(pair.set(1, "data.nc", "data.target_features"),
            (Contents{{"a", {{"A", 1}}}, {"b", {{"B", 1}}}}));
  EXPECT_TRUE(list_datasets(pair.folder / "data.nc").at(1).boolean);
}

TEST(ImportPair, LibsvmGivesNumberedFeaturesAndLabels) {
  Pair pair("3 6 4\n0,3 5:0.5 1:2\n2 0:1\n1 2:1 3:4\n");
  ImportReport report = pair.run();
  EXPECT_EQ(report.input_width, 6);
  EXPECT_EQ(report.target_width, 4);
  EXPECT_EQ(
      pair.set(0),
      (Contents{{"0", {{"1", 2}, {"5", 0.5f}}}, {"1", {{"0", 1}}}, {"2", {{"2", 1}, {"3", 4}}}}));
  EXPECT_EQ(pair.set(1, "data.nc", "data.target_features"),
            (Contents{{"0", {{"0", 1}, {"3", 1}}}, {"1", {{"2", 1}}}, {"2", {{"1", 1}}}}));
  pair.options.libsvm_labels = LibsvmLabels::names;
  pair.run();
  EXPECT_EQ(read_text(pair.folder / "data.target_features"), "0\t0\n3\t1\n2\t2\n1\t3\n");
  Pair named("-1 1:1\n+1 2:1\n");
  named.run();
  EXPECT_EQ(read_text(named.folder / "data.target_features"), "-1\t0\n+1\t1\n");
  named.options.libsvm_labels = LibsvmLabels::numbers;
  EXPECT_THAT(named.error(), HasSubstr("in.txt:1: the label \"-1\" is not a number from 0"));
}

TEST(ImportPair, TablesAreGroupedByExampleWhateverTheirOrder) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Contents expected;
  std::vector<std::string> lines;
  for (int i = 0; i < 4000; ++i) {
    const std::string user = fmt::format("u{}", random() % 200),
                      item = fmt::format("i{}", random() % 300);
    const float value = float(1 + random() % 9);
    if (expected[user].count(item) > 0) continue;
    expected[user][item] = value;
    lines.push_back(fmt::format("{},{},{}\n", user, item, value));
  }
  std::shuffle(lines.begin(), lines.end(), random);
  Pair pair(fmt::format("{}", fmt::join(lines, "")));
  pair.options.input_kind = pair.options.target_kind = ValueKind::analog;
  const ImportReport report = pair.run();
  EXPECT_EQ(report.joined, Index(expected.size()));
  EXPECT_EQ(pair.set(0), expected);
  EXPECT_EQ(pair.set(1), expected);
}

TEST(ImportPair, EntrySplitsAreDisjointCompleteAndSeeded) {
  std::mt19937 random(fresh_seed());
  std::string text;
  for (int e = 0; e < 300; ++e) {
    std::set<int> items;
    for (std::size_t k = 0; k <= random() % 12; ++k) items.insert(int(random() % 100));
    text += fmt::format("u{}\t{}\n", e, fmt::join(items, ":"));
  }
  Pair whole(text), pair(text);
  whole.run();
  pair.options.split = {SplitRule::Kind::ratio, SplitRule::Unit::entry, {0.8, 0.1, 0.1}, 5};
  const ImportReport report = pair.run();
  ASSERT_EQ(report.files.size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(pair.folder / "data.nc"));
  const Contents train = pair.set(0, "data.train.nc");
  EXPECT_EQ(train, pair.set(1, "data.train.nc"));
  Contents joined = train;
  for (const std::string part : {"validation", "test"}) {
    const std::string file = fmt::format("data.{}.nc", part);
    const Contents input = pair.set(0, file);
    EXPECT_FALSE(input.empty());
    for (const auto& [example, row] : input)
      EXPECT_EQ(row, train.at(example)) << "inputs are training entries";
    for (const auto& [example, row] : pair.set(1, file)) {
      EXPECT_FALSE(row.empty());
      for (const auto& [feature, value] : row) {
        EXPECT_TRUE(joined.at(example).emplace(feature, value).second) << "parts are disjoint";
      }
    }
  }
  EXPECT_EQ(joined, whole.set(0)) << "parts are complete";
  const std::string first = read_text(pair.folder / "data.test.nc");
  pair.run();
  EXPECT_EQ(pair.set(0, "data.train.nc"), train);
  pair.options.split.seed = 6;
  pair.run();
  EXPECT_NE(pair.set(0, "data.train.nc"), train);
}

TEST(ImportPair, LeaveOneOutAndExampleSplits) {
  Pair pair("a\tx:y:z\nb\tx\nc\ty:z\nd\tx:z\n");
  pair.options.split = {SplitRule::Kind::leave_one_out, SplitRule::Unit::entry, {}, 1};
  pair.run();
  const Contents target = pair.set(1, "data.test.nc");
  EXPECT_EQ(target.size(), 3u) << "an example with one entry is for training only";
  for (const auto& [example, row] : target) EXPECT_EQ(row.size(), 1u);
  EXPECT_EQ(pair.set(0, "data.train.nc").size(), 4u);
  pair.options.split = {SplitRule::Kind::ratio, SplitRule::Unit::example, {3, 1}, 1};
  const ImportReport report = pair.run();
  EXPECT_EQ(report.files[0].examples, 3);
  EXPECT_EQ(report.files[1].examples, 1);
  Contents all = pair.set(0, "data.train.nc");
  all.merge(pair.set(0, "data.test.nc"));
  EXPECT_EQ(all.size(), 4u);
  EXPECT_EQ(all["a"], (std::map<std::string, float>{{"x", 1}, {"y", 1}, {"z", 1}}));
  pair.options.split.unit = SplitRule::Unit::entry;
  write_text(pair.folder / "out.txt", "a\tx\n");
  pair.options.target = pair.folder / "out.txt";
  EXPECT_THAT(message_of<UsageError>([&] { pair.run(); }),
              HasSubstr("a split by entry needs an input that is its own target"));
  Pair tiny("a\tx\n");
  tiny.options.split = {SplitRule::Kind::leave_one_out, SplitRule::Unit::entry, {}, 1};
  EXPECT_THAT(tiny.error(),
              HasSubstr("data.test.nc: 0 examples with 0 input and 0 target entries are left "
                        "for the test part; import more data or change `split`"));
}

TEST(ImportPair, LeavesExistingFilesAsTheyWere) {
  Pair pair("a\tx\nbroken\n");
  for (const char* name : {"data.nc", "data.features", "data.examples"})
    write_text(pair.folder / name, "precious");
  EXPECT_THAT(pair.error(), HasSubstr("in.txt:2: \"broken\" has no tab"));
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += fmt::format("example{}\tx{}:y{}\n", i, i, i);
  write_text(pair.folder / "in.txt", text);
  EXPECT_THAT(with_file_size_limit(100'000, [&] { return pair.error(); }), HasSubstr("free s"));
  for (const char* name : {"data.nc", "data.features", "data.examples"}) {
    EXPECT_EQ(read_text(pair.folder / name), "precious");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(pair.folder.path()), {}), 4);
  pair.options.output = pair.folder / "none" / "data.nc";
  EXPECT_THAT(pair.error(), HasSubstr("none"));
  pair.options.output = pair.folder / "in.txt";
  EXPECT_THAT(message_of<UsageError>([&] { pair.run(); }), HasSubstr("is both read and written"));
}

/// A run of generateNetCDF's way.
struct Set {
  const TempDir& folder;
  SetImport options;
  Set(const TempDir& where, const std::string& name, const std::string& text) : folder(where) {
    write_text(folder / (name + ".txt"), text);
    options.input = folder / (name + ".txt");
    options.output = folder / (name + ".nc");
    options.features = folder / "features";
    options.examples = folder / "samples";
    options.name = name;
    options.feature_mode = FeatureMode::fresh;
    options.rules.repeated = RepeatedExamples::last;
  }
  ImportReport run() { return import_set(options, Log()); }
  std::string error() {
    return message_of([&] { run(); });
  }
};

TEST(ImportSet, KeepsTheOrderOfFeaturesAndNumbersThemByAppearance) {
  const TempDir folder;
  Set set(folder, "gl_input", "a\t1:2:3\nb\t4:2:5\nc\t6:7:8\n");
  set.run();
  EXPECT_EQ(read_text(folder / "features"), "1\t0\n2\t1\n3\t2\n4\t3\n5\t4\n6\t5\n7\t6\n8\t7\n");
  EXPECT_EQ(read_text(folder / "samples"), "a\t0\nb\t1\nc\t2\n");
  const auto infos = list_datasets(folder / "gl_input.nc");
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].name, "gl_input");
  EXPECT_EQ(infos[0].width(), 8);
  EXPECT_EQ(read_example_labels(infos[0]), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(ImportSet, AlignsASecondTextToTheFirstByLabel) {
  const TempDir folder;
  Set(folder, "one", "a\t1\nb\t2\nc\t3\n").run();
  Set two(folder, "two", "c\t1\na\t2\nb\t3\n");
  two.options.feature_mode = FeatureMode::existing;
  two.run();
  EXPECT_EQ(contents(folder / "two.nc", 0, read_label_index(folder / "features")),
            (Contents{{"a", {{"2", 1}}}, {"b", {{"3", 1}}}, {"c", {{"1", 1}}}}));
  EXPECT_EQ(read_example_labels(list_datasets(folder / "two.nc").at(0)),
            (std::vector<std::string>{"a", "b", "c"}));
}

TEST(ImportSet, RefusesOtherExamplesThanTheIndexHolds) {
  const TempDir folder;
  Set(folder, "one", "a\t1\nb\t2\nc\t3\n").run();
  Set fewer(folder, "two", "c\t1\na\t2\n");
  EXPECT_THAT(fewer.error(), HasSubstr("two.txt: example \"b\" of "));
  EXPECT_THAT(fewer.error(),
              HasSubstr("is missing, so the rows would not match files written with it before"));
  fewer.options.rules.missing = MissingExamples::empty;
  EXPECT_EQ(fewer.run().only_input, 1);
  EXPECT_EQ(list_datasets(folder / "two.nc").at(0).examples, 3);
  fewer.options.rules.missing = MissingExamples::drop;
  fewer.run();
  EXPECT_EQ(list_datasets(folder / "two.nc").at(0).examples, 2);
  Set more(folder, "more", "a\t1\nb\t2\nc\t3\nd\t1\n");
  EXPECT_THAT(more.error(), HasSubstr("more.txt: example \"d\" is not in "));
  EXPECT_EQ(read_text(folder / "samples"), "a\t0\nb\t1\nc\t2\n");
  more.options.rules.missing = MissingExamples::empty;
  more.run();
  EXPECT_EQ(read_text(folder / "samples"), "a\t0\nb\t1\nc\t2\nd\t3\n");
}

TEST(ImportSet, FeatureModesFollowTheFlags) {
  const TempDir folder;
  Set set(folder, "x", "a\t1:2\n");
  set.options.feature_mode = FeatureMode::existing;
  EXPECT_THAT(set.error(),
              HasSubstr("features: no such index of features; start a new one with -c"));
  write_text(folder / "features", "2\t0\n");
  EXPECT_EQ(set.run().unknown_features, 1);
  EXPECT_EQ(list_datasets(folder / "x.nc").at(0).width(), 1);
  set.options.feature_mode = FeatureMode::merge;
  set.run();
  EXPECT_EQ(read_text(folder / "features"), "2\t0\n1\t1\n");
  set.options.feature_mode = FeatureMode::fresh;
  set.run();
  EXPECT_EQ(read_text(folder / "features"), "1\t0\n2\t1\n");
}

TEST(ImportSet, TheLastLineOfAnExampleCounts) {
  const TempDir folder;
  Set set(folder, "x", "a\t1,5:2,6\nb\t1,7\na\t3,8\n");
  set.options.kind = ValueKind::analog;
  EXPECT_EQ(set.run().repeated_examples, 1);
  EXPECT_EQ(contents(folder / "x.nc", 0, read_label_index(folder / "features")),
            (Contents{{"a", {{"3", 8}}}, {"b", {{"1", 7}}}}));
  write_text(folder / "x.txt", "a\t1,5:2\n");
  EXPECT_THAT(set.error(), HasSubstr("x.txt:1: the feature \"2\" has no value"));
}

TEST(RowTable, OrdersRowsInBucketsLikeAMap) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const TempDir folder;
  for (const bool valued : {false, true}) {
    for (const RepeatedExamples repeated : {RepeatedExamples::merge, RepeatedExamples::last}) {
      RowTable table(folder.path(), valued);
      std::map<Column, std::vector<std::pair<Column, float>>> expected;
      for (int i = 0; i < 500; ++i) {
        const Column example = Column(random() % 100) * 3;
        std::vector<Column> features;
        std::vector<float> values;
        auto& row = expected[example];
        if (repeated == RepeatedExamples::last) row.clear();
        for (std::size_t k = 0; k < random() % 6; ++k) {
          features.push_back(Column(i * 10 + int(k)));
          if (valued) values.push_back(float(random() % 100));
          row.emplace_back(features.back(), valued ? values.back() : 1.0f);
        }
        table.add(example, features, values);
      }
      RowCleaner cleaner(Duplicates::error);
      table.finish(repeated, cleaner, {}, 37);
      EXPECT_EQ(table.rows(), Index(expected.size()));
      table.rewind();
      SpilledRow row;
      Index entries = 0;
      for (const auto& [example, content] : expected) {
        ASSERT_TRUE(table.next(row));
        EXPECT_EQ(row.example, example);
        EXPECT_EQ(table.count(example), content.size());
        ASSERT_EQ(row.features.size(), content.size());
        for (std::size_t k = 0; k < content.size(); ++k) {
          EXPECT_EQ(row.features[k], content[k].first);
          if (valued) {
            EXPECT_EQ(row.values[k], content[k].second);
          }
        }
        entries += Index(content.size());
      }
      EXPECT_FALSE(table.next(row));
      EXPECT_EQ(table.entries(), entries);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "spill files have no names";
}

TEST(RowTable, RefusesMoreEntriesThanItCanCount) {
  const TempDir folder;
  RowTable table(folder.path(), false);
  table.add(3, std::vector<Column>{1}, {});
  // Room that is never touched: the row is refused before it is read.
  constexpr std::size_t kMany = 0xfffffffe;
  void* const room = ::mmap(nullptr, kMany * sizeof(Column), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(room, MAP_FAILED);
  EXPECT_EQ(message_of([&] {
              table.add(3, {static_cast<const Column*>(room), kMany}, {});
            }),
            "example number 3 has more than 4294967294 entries in all its lines; give it fewer "
            "lines");
  ::munmap(room, kMany * sizeof(Column));
  EXPECT_EQ(table.entries(), 1);
}

TEST(Import, NeedsANameForItsDataSets) {
  Pair pair("a\tx\n");
  pair.options.name.clear();
  EXPECT_EQ(message_of<UsageError>([&] { pair.run(); }), "`name` is empty; name the data sets");
  SetImport set;
  EXPECT_EQ(message_of<UsageError>([&] { import_set(set, Log()); }),
            "`name` is empty; name the data set");
}

TEST(RowCleaner, FindsDuplicatesOfSmallAndLargeNumbers) {
  std::vector<Column> features = {7, 4'000'000'000u, 7, 8, 4'000'000'000u};
  std::vector<float> values = {1, 2, 3, 4, 5};
  std::vector<Microseconds> times;
  RowCleaner sum(Duplicates::sum);
  EXPECT_EQ(sum.clean(features, values, times), 3u);
  EXPECT_THAT(features, ElementsAre(7u, 4'000'000'000u, 8u));
  EXPECT_THAT(values, ElementsAre(4.0f, 7.0f, 4.0f));
  EXPECT_EQ(sum.merged(), 2);
  std::vector<float> none;
  EXPECT_EQ(sum.clean(features, none, times), 3u) << "rows are told apart";
  EXPECT_THAT(none, IsEmpty());
  RowCleaner error(Duplicates::error);
  features = {1, 2, 1};
  EXPECT_EQ(error.clean(features, none, times), 2u);
}

}  // namespace
}  // namespace norn
