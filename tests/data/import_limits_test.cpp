// SPDX-License-Identifier: Apache-2.0
// Imports that are stopped, that would write without end, or that find what was left of killed
// ones.

#include "norn/data/importer.h"
#include "norn/data/label_index.h"
#include "src/base/host.h"
#include "support.h"

#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

namespace norn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::set<std::string> files_in(const TempDir& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    names.insert(entry.path().filename().string());
  return names;
}

PairImport import_of(const TempDir& folder, const std::string& text) {
  write_text(folder / "in.txt", text);
  PairImport options;
  options.input = folder / "in.txt";
  options.output = folder / "data.nc";
  options.name = "shop";
  return options;
}

struct Stopped {};

TEST(ImportLimits, AnImportCanBeStoppedWhileItWritesAnIndex) {
  for (const char* text : {"1 3000000 1\n0 1:1\n", "1 1 3000000\n0 0:1\n"}) {
    const TempDir folder;
    PairImport options = import_of(folder, text);
    Index asked = 0;
    options.rules.progress = [&](const ImportProgress& at) {
      if (std::string_view(at.stage) != "writing an index:" || at.entries == 0) return;
      ++asked;
      throw Stopped{};
    };
    EXPECT_THROW(import_pair(options, Log()), Stopped);
    EXPECT_EQ(asked, 1);
    EXPECT_THAT(files_in(folder), ElementsAre("in.txt"));
  }
}

TEST(ImportLimits, NoIndexIsWrittenOfMoreNumbersThanAnybodyReads) {
  const TempDir folder;
  PairImport options = import_of(folder, "2 4294967295 3\n0,2 4294967294:0.5\n1 7:2\n");
  const ImportReport report = import_pair(options, Log());
  EXPECT_EQ(report.input_width, 4294967295);
  EXPECT_EQ(report.target_width, 3);
  EXPECT_THAT(files_in(folder),
              ElementsAre("data.examples", "data.nc", "data.target_features", "in.txt"));
  EXPECT_EQ(list_datasets(folder / "data.nc").at(0).width(), 4294967295);
  // One that is there says something else, and the next import would believe it.
  write_text(folder / "old", "0\t0\n");
  options.features = folder / "old";
  options.feature_mode = FeatureMode::fresh;
  EXPECT_EQ(message_of([&] { import_pair(options, Log()); }),
            (folder / "old").string() +
                ": is an index of other features, and none is written of "
                "4294967295 numbered ones; remove it");
}

TEST(ImportLimits, WhatAKilledImportLeftIsRemovedByTheNext) {
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  const TempDir folder;
  const std::string mark = fmt::format(".tmp-{}-{}-0", host_name(), ended);
  for (const char* name : {"data.nc", "data.features", "data.examples"})
    write_text(folder / (name + mark), "half");
  write_text(folder / ("other.nc" + mark), "half");
  import_pair(import_of(folder, "a\tx:y\n"), Log());
  EXPECT_THAT(files_in(folder), ElementsAre("data.examples", "data.features", "data.nc", "in.txt",
                                            "other.nc" + mark));
  SetImport set;
  set.input = folder / "in.txt";
  set.output = folder / "set.nc";
  set.features = folder / "f";
  set.examples = folder / "s";
  set.feature_mode = FeatureMode::fresh;
  set.name = "shop";
  for (const char* name : {"set.nc", "f", "s"}) write_text(folder / (name + mark), "half");
  import_set(set, Log());
  EXPECT_THAT(files_in(folder), ElementsAre("data.examples", "data.features", "data.nc", "f",
                                            "in.txt", "other.nc" + mark, "s", "set.nc"));
}

TEST(ImportLimits, ExamplesWithoutLabelsAreCountedAsSuch) {
  for (EmptyRows rule : {EmptyRows::drop, EmptyRows::keep}) {
    const TempDir folder;
    PairImport options = import_of(folder, "5 9 3\n0 1:1\n 2:1\n1,2 8:1\n 3:1\n2\n");
    options.rules.empty_rows = rule;
    options.rules.missing = MissingExamples::drop;
    const ImportReport report = import_pair(options, Log());
    EXPECT_EQ(report.unlabelled_rows, 2);
    EXPECT_EQ(report.empty_rows, 1);
  }
}

TEST(ImportLimits, LinesOfUnknownFeaturesAloneFollowTheRulesOfEmptyRows) {
  const TempDir folder;
  PairImport options = import_of(folder, "c,q\na,q\na,x\nb,q\nb,x\nc,q\nd,y\n");
  options.target = folder / "out.txt";
  write_text(options.target, "d,q\na,y\n");
  options.features = folder / "f";
  write_text(options.features, "x\t0\ny\t1\n");
  options.rules.missing = MissingExamples::drop;
  std::vector<std::string> said;
  const Log log([&said](LogLevel, const std::string& message) { said.push_back(message); });
  EXPECT_EQ(import_pair(options, log).joined, 1);
  ASSERT_EQ(said.size(), 2u) << "of each text";
  EXPECT_THAT(said[0], HasSubstr("in.txt: 1 examples have no features that the given index knows"));
  EXPECT_THAT(said[1], HasSubstr("out.txt: 1 examples have no features"));
  options.rules.empty_rows = EmptyRows::drop;
  EXPECT_EQ(import_pair(options, log).empty_rows, 2);
  EXPECT_EQ(said.size(), 2u);
  options.rules.empty_rows = EmptyRows::keep;
  options.rules.missing = MissingExamples::empty;
  EXPECT_EQ(import_pair(options, log).empty_rows, 2);
  using Rows = std::vector<std::vector<float>>;
  const std::vector<Rows> expected = {{{0, 0}, {1, 0}, {1, 0}, {0, 1}},
                                      {{0, 0}, {0, 1}, {0, 0}, {0, 0}}};
  const std::vector<DatasetInfo> sets = list_datasets(options.output);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(read_example_labels(sets.at(i)), ElementsAre("c", "a", "b", "d")) << "as they come";
    EXPECT_EQ(dense_rows(*open_dataset(sets[i], Residency::memory, Role::target), 16), expected[i]);
  }
}

TEST(ImportLimits, ListsKeepNamesOfExamplesAndFeatures) {
  const TempDir folder;
  const ImportReport report = import_pair(import_of(folder, "17 30 5\n4 5\n900 30 7 8 \n"), Log());
  EXPECT_EQ(report.files.at(0).examples, 3);
  EXPECT_EQ(report.files.at(0).input_entries, 6);
  const LabelIndex features = read_label_index(folder / "data.features");
  EXPECT_EQ(features.size(), 4);
  EXPECT_EQ(features.label(0), "30");
  EXPECT_EQ(features.label(3), "8");
  EXPECT_THAT(read_example_labels(list_datasets(folder / "data.nc").at(0)),
              ElementsAre("17", "4", "900"));
}

}  // namespace
}  // namespace norn
