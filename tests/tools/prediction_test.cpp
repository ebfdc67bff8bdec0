// SPDX-License-Identifier: Apache-2.0
// What the predictor reads and writes around the network: score formats, sparse rows, filters,
// files of recommendations.
#include "norn/base/error.h"
#include "src/data/dataset.h"
#include "src/data/spool.h"
#include "tests/data/support.h"
#include "tools/prediction/prediction_lines.h"
#include "tools/prediction/prediction_writer.h"
#include "tools/prediction/score_filters.h"

#include <cstdio>
#include <limits>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn::tools {
namespace {

using testing::ElementsAre;

TEST(ScoreFormat, PrintsAsPrintfDoes) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::normal_distribution<float> scores(0.0f, 30.0f);
  for (const char* format : {"4.3f", ".0f", "8.2f", "-8.2f", "+.3f", " .3f", "012.4f", "#.0f", "e",
                             ".6e", "G", "12g", ".9g", "-+9.1f", "7.f"})
    for (int i = 0; i < 50; ++i) {
      const float score = scores(random);
      char expected[64];
      std::snprintf(expected, sizeof expected, ("%" + std::string(format)).c_str(), double(score));
      for (const std::string& written : {std::string(format), "%" + std::string(format)}) {
        std::string got;
        ScoreFormat(written).append(score, got);
        EXPECT_EQ(got, expected) << written;
      }
    }
}

TEST(ScoreFormat, RejectsAnythingElse) {
  for (const char* format : {"", "%", "d", "%s", "4.3", "%4.3f%n", "%%f", "4.3lf", "99999f", "f f"})
    EXPECT_THROW(ScoreFormat{format}, UsageError) << format;
}

TEST(Spool, GivesBackWhatWasWrittenAndSaysWhereItEnds) {
  const TempDir folder;
  const std::vector<float> values = {1, 2, 3};
  Spool spool(folder.path(), "write elsewhere");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "it has no name";
  spool.write(std::span<const float>(values));
  spool.rewind();
  std::vector<float> back(3);
  spool.read(std::span<float>(back));
  EXPECT_EQ(back, values);
  EXPECT_EQ(message_of([&] { spool.read(std::span<float>(back)); }),
            folder.path().string() +
                ": temporary file: cannot be read back: it ends before what was written; free some "
                "space or write elsewhere");
}

TEST(SparseRows, AreSortedAndKeepTheFirstOfSeveralEntries) {
  SparseRows rows(true);
  rows.add(5, 0.5f);
  rows.add(2, 0.2f);
  rows.add(5, 9.0f);
  EXPECT_EQ(rows.end_row(), 1);
  EXPECT_EQ(rows.end_row(), 0);
  rows.add(1, 1.0f);
  EXPECT_EQ(rows.end_row(), 0);
  EXPECT_THAT(rows.columns(0), ElementsAre(2u, 5u));
  EXPECT_THAT(rows.values(0), ElementsAre(0.2f, 0.5f));
  EXPECT_TRUE(rows.columns(1).empty());
  CsrBuffer buffer;
  rows.copy_to(buffer, 10);
  rows.clear();
  EXPECT_EQ(rows.rows(), 0);
  const CsrView view = buffer.view();
  EXPECT_EQ(view.rows, 3);
  EXPECT_EQ(view.cols, 10);
  EXPECT_EQ(view.row_begin[3], 3);
  EXPECT_EQ(view.column[2], 1u);
  EXPECT_EQ(view.value[1], 0.5f);
}

LabelIndex letters(int count) {
  LabelIndex index;
  for (int i = 0; i < count; ++i) index.add(std::string(1, char('a' + i)));
  return index;
}

RequestBatch batch_of(std::vector<std::string> labels) {
  RequestBatch batch;
  batch.labels = std::move(labels);
  return batch;
}

std::vector<Column> row_of(const CsrView& view, Index row) {
  return {view.column + view.row_begin[row], view.column + view.row_begin[row + 1]};
}

class ScoreFiltersTest : public testing::Test {
 protected:
  TempDir folder_;
  LabelIndex units_ = letters(6);
  Console console_{"test", 0, LogLevel::warning};
};

TEST_F(ScoreFiltersTest, ExcludeWhatAFileListsWhateverValueStandsBesideIt) {
  write_text(folder_ / "f.txt", "one\tc,1234567890:a:unknown:a,1\r\ntwo\tb\ntwo\td:e\n");
  ScoreFilters filters(FilterMode::exclude, 6);
  filters.set_table(std::make_unique<FilterTable>(folder_ / "f.txt", units_, FilterMode::exclude));
  const ScoreFilter filter = filters.of(batch_of({"two", "nobody", "one"}));
  ASSERT_EQ(filter.excluded.rows, 3);
  EXPECT_THAT(row_of(filter.excluded, 0), ElementsAre(1u, 3u, 4u));  // both lines
  EXPECT_TRUE(row_of(filter.excluded, 1).empty());
  EXPECT_THAT(row_of(filter.excluded, 2), ElementsAre(0u, 2u));
  EXPECT_EQ(filter.factors.rows, 0);
}

TEST_F(ScoreFiltersTest, ScaleByTheValueOrByZero) {
  write_text(folder_ / "f.txt", "one\tc,2.5:a\n");
  ScoreFilters filters(FilterMode::scale, 6);
  filters.set_table(std::make_unique<FilterTable>(folder_ / "f.txt", units_, FilterMode::scale));
  const ScoreFilter filter = filters.of(batch_of({"one"}));
  EXPECT_EQ(filter.excluded.rows, 0);
  EXPECT_THAT(row_of(filter.factors, 0), ElementsAre(0u, 2u));
  EXPECT_EQ(filter.factors.value[0], 0.0f);
  EXPECT_EQ(filter.factors.value[1], 2.5f);
}

TEST_F(ScoreFiltersTest, JoinTheLinesOfAnExampleInEveryFormat) {
  const std::pair<const char*, const char*> files[] = {
      {"f.txt", "two\tb,3\none\tc,2:a,5:a,4\ntwo\te,1\none\td,7:c,0.5\n"},
      {"f.csv", "two,b,3\none,c,2\none,a,5\none,a,4\ntwo,e,1\none,d,7\none,c,0.5\n"},
      {"f.tsv", "one\tc\t2\none\ta\t5\ntwo\tb\t3\none\ta\t4\none\td\t7\none\tc\t0.5\ntwo\te\t1\n"},
  };
  for (const auto& [name, text] : files) {
    write_text(folder_ / name, text);
    for (const FilterMode mode : {FilterMode::exclude, FilterMode::scale}) {
      ScoreFilters filters(mode, 6);
      filters.set_table(std::make_unique<FilterTable>(folder_ / name, units_, mode));
      const ScoreFilter filter = filters.of(batch_of({"one", "nobody", "two"}));
      const bool scale = mode == FilterMode::scale;
      const CsrView& rows = scale ? filter.factors : filter.excluded;
      EXPECT_THAT(row_of(rows, 0), ElementsAre(0u, 2u, 3u)) << name;
      EXPECT_TRUE(row_of(rows, 1).empty()) << name;
      EXPECT_THAT(row_of(rows, 2), ElementsAre(1u, 4u)) << name;
      if (!scale) continue;
      // Of contradictory factors the last one of the text.
      EXPECT_THAT(std::vector<float>(rows.value, rows.value + 5), ElementsAre(4, 0.5f, 7, 3, 1))
          << name;
    }
  }
  write_text(folder_ / "list.txt", "u1 a1 b1\nu2 b1\nu1 c1\n");
  LabelIndex units;
  for (const char* label : {"a1", "b1", "c1"}) units.add(label);
  ScoreFilters filters(FilterMode::exclude, 3);
  filters.set_table(
      std::make_unique<FilterTable>(folder_ / "list.txt", units, FilterMode::exclude));
  EXPECT_THAT(row_of(filters.of(batch_of({"u1"})).excluded, 0), ElementsAre(0u, 1u, 2u));
}

TEST_F(ScoreFiltersTest, JoinSeenUnitsWithTheFile) {
  write_text(folder_ / "f.txt", "one\tc:a\n");
  ScoreFilters filters(FilterMode::exclude, 6);
  filters.set_table(std::make_unique<FilterTable>(folder_ / "f.txt", units_, FilterMode::exclude));
  RequestBatch batch = batch_of({"one", "two"});
  batch.seen.add(5);
  batch.seen.add(0);
  batch.seen.end_row();
  batch.seen.add(1);
  batch.seen.end_row();
  const ScoreFilter filter = filters.of(batch);
  EXPECT_THAT(row_of(filter.excluded, 0), ElementsAre(0u, 2u, 5u));
  EXPECT_THAT(row_of(filter.excluded, 1), ElementsAre(1u));
}

TEST_F(ScoreFiltersTest, AllowTheListedUnitsAlone) {
  write_text(folder_ / "allow.txt", "b\r\nunknown\n\nf\n");
  ScoreFilters filters(FilterMode::exclude, 6);
  filters.allow(folder_ / "allow.txt", units_, console_);
  const ScoreFilter filter = filters.of(batch_of({"one"}));
  EXPECT_THAT(std::vector<int>(filter.allowed.begin(), filter.allowed.end()),
              ElementsAre(0, 1, 0, 0, 0, 1));
  write_text(folder_ / "none.txt", "x\ny\n");
  EXPECT_THROW(filters.allow(folder_ / "none.txt", units_, console_), DataError);
  EXPECT_THROW(filters.allow(folder_ / "missing.txt", units_, console_), DataError);
}

// Two examples with K = 3; the second has two units only.
TopK sample_lists() {
  TopK best;
  best.k = 3;
  best.score = Matrix<float>::zeros(2, 3);
  best.unit = Matrix<Index>::zeros(2, 3);
  best.count = Buffer<Index>::zeros(2);
  const float scores[] = {0.9f, 0.5f, 0.25f, -0.125f, -2.0f, 0.0f};
  const Index units[] = {4, 0, 2, 1, 5, 0};
  std::copy_n(scores, 6, best.score.view().data);
  std::copy_n(units, 6, best.unit.view().data);
  best.count.data()[0] = 3;
  best.count.data()[1] = 2;
  return best;
}

TEST_F(ScoreFiltersTest, TextOfRecommendations) {
  write_text(folder_ / "recs.txt", "what was there\n");
  const std::vector<std::string> labels = {"one", "two"};
  {
    const auto writer = make_text_writer(folder_ / "recs.txt", ScoreFormat("4.3f"), &units_);
    writer->write_ranked(labels, sample_lists());
    EXPECT_EQ(read_text(folder_ / "recs.txt"), "what was there\n");  // until all is there
    writer->commit();
  }
  EXPECT_EQ(read_text(folder_ / "recs.txt"),
            "one\te,0.900:a,0.500:c,0.250:\ntwo\tb,-0.125:f,-2.000:\n");
  {
    const auto writer = make_text_writer(folder_ / "recs.txt", ScoreFormat(".1f"), nullptr);
    writer->write_ranked(labels, sample_lists());
  }
  EXPECT_EQ(read_text(folder_ / "recs.txt"),
            "one\te,0.900:a,0.500:c,0.250:\ntwo\tb,-0.125:f,-2.000:\n");
}

TEST_F(ScoreFiltersTest, AreReadFromListsAndNumbers) {
  LabelIndex units;
  for (const char* name : {"30", "5", "7"}) units.add(name);
  write_text(folder_ / "list.txt", "u1 7 30 99\nu2 5\n");
  write_text(folder_ / "numbers.svm", "0 2:1 0:1\n0 1:1 9:1\n");
  for (const char* file : {"list.txt", "numbers.svm"}) {
    const bool list = std::string(file) == "list.txt";
    ScoreFilters filters(FilterMode::exclude, 3);
    filters.set_table(std::make_unique<FilterTable>(folder_ / file, units, FilterMode::exclude));
    const ScoreFilter filter = filters.of(list ? batch_of({"u2", "u1"}) : batch_of({"1", "0"}));
    EXPECT_THAT(row_of(filter.excluded, 0), ElementsAre(1u)) << file;
    EXPECT_THAT(row_of(filter.excluded, 1), ElementsAre(0u, 2u)) << file;
  }
}

TEST_F(ScoreFiltersTest, HoldNoUnitsThatAreNoCandidates) {
  for (const FilterMode mode : {FilterMode::exclude, FilterMode::scale}) {
    write_text(folder_ / "f.txt", "one\tf,2:b,3:c,4\none\te,5\n");
    ScoreFilters filters(mode, 2);  // an index of six for a layer of two
    filters.set_table(std::make_unique<FilterTable>(folder_ / "f.txt", units_, mode));
    RequestBatch batch = batch_of({"one"});
    for (Column unit : {0u, 2u, 4294967294u}) batch.seen.add(unit);
    batch.seen.end_row();
    const ScoreFilter filter = filters.of(batch);
    const bool scales = mode == FilterMode::scale;
    if (scales) {
      EXPECT_THAT(row_of(filter.factors, 0), ElementsAre(1u));
    }
    EXPECT_EQ(row_of(filter.excluded, 0),
              scales ? std::vector<Column>({0}) : std::vector<Column>({0, 1}));
  }
}

TEST_F(ScoreFiltersTest, PassOverMalformedLinesWhenAsked) {
  write_text(folder_ / "f.txt", "one\tb\nnonsense\none\tc\n");
  EXPECT_THROW(FilterTable(folder_ / "f.txt", units_, FilterMode::exclude), DataError);
  TextOptions text;
  text.skip_malformed = 1;
  ScoreFilters filters(FilterMode::exclude, 6);
  filters.set_table(
      std::make_unique<FilterTable>(folder_ / "f.txt", units_, FilterMode::exclude, text));
  EXPECT_THAT(row_of(filters.of(batch_of({"one"})).excluded, 0), ElementsAre(1u, 2u));
}

TEST(PredictionLines, OfLabelsThatNobodyCouldTakeApartAreRefused) {
  LabelIndex units = letters(2);
  units.add("Heat, The");
  units.add("a:b");
  EXPECT_NO_THROW(require_plain_labels(units, 2));
  EXPECT_EQ(message_of<UsageError>([&] { require_plain_labels(units, 3); }),
            "--format text: the feature \"Heat, The\" has a comma in its name, which separates "
            "features and scores in that text; take --format tsv or jsonl");
  LabelIndex colons;
  colons.add("a:b");
  EXPECT_THROW(require_plain_labels(colons, 1), UsageError);
}

TEST_F(ScoreFiltersTest, TakeNumbersAsLabelsWhereUnitsHaveLabels) {
  LabelIndex units;
  for (const char* name : {"30", "5", "2"}) units.add(name);
  write_text(folder_ / "numbers.svm", "0 30:1 2:1 0:1\n0 1:1 5:1\n");
  ScoreFilters filters(FilterMode::exclude, 3);
  filters.set_table(std::make_unique<FilterTable>(
      folder_ / "numbers.svm", units, FilterMode::exclude, TextOptions(), TextNumbers::labels));
  const ScoreFilter filter = filters.of(batch_of({"0", "1"}));
  EXPECT_THAT(row_of(filter.excluded, 0), ElementsAre(0u, 2u));
  EXPECT_THAT(row_of(filter.excluded, 1), ElementsAre(1u));
}

TEST_F(ScoreFiltersTest, OtherFormsOfRecommendations) {
  const std::vector<std::string> labels = {"one \"x\"", "t\tw\no\xC3\xA9"};
  const auto written = [&](const char* word, const LabelIndex* units) {
    const auto writer =
        make_text_writer(folder_ / "recs", ScoreFormat(".9g"), units, text_form(word));
    writer->write_ranked(labels, sample_lists());
    writer->commit();
    return read_text(folder_ / "recs");
  };
  EXPECT_EQ(written("tsv", &units_),
            "one \"x\"\t1\te\t0.899999976\none \"x\"\t2\ta\t0.5\none \"x\"\t3\tc\t0.25\n"
            "t\\tw\\no\xC3\xA9\t1\tb\t-0.125\nt\\tw\\no\xC3\xA9\t2\tf\t-2\n");
  EXPECT_EQ(written("jsonl", nullptr),
            R"({"example": "one \"x\"", "rank": 1, "feature": "4", "score": 0.9}
{"example": "one \"x\"", "rank": 2, "feature": "0", "score": 0.5}
{"example": "one \"x\"", "rank": 3, "feature": "2", "score": 0.25}
{"example": "t\tw\no\u00e9", "rank": 1, "feature": "1", "score": -0.125}
{"example": "t\tw\no\u00e9", "rank": 2, "feature": "5", "score": -2}
)");
  Matrix<float> values = Matrix<float>::zeros(2, 2);
  values.view()(0, 1) = 1.5f;
  values.view()(1, 0) = std::numeric_limits<float>::quiet_NaN();
  const auto writer =
      make_text_writer(folder_ / "recs", ScoreFormat(".9g"), nullptr, TextForm::json_lines);
  writer->write_values(labels, std::as_const(values).view());
  writer->commit();
  EXPECT_EQ(read_text(folder_ / "recs"),
            R"({"example": "one \"x\"", "values": [0, 1.5]}
{"example": "t\tw\no\u00e9", "values": [null, 0]}
)");
}

TEST_F(ScoreFiltersTest, NetcdfOfRecommendations) {
  const std::vector<std::string> labels = {"one", "two"};
  const auto writer = make_netcdf_writer(folder_ / "recs.nc", "recommendations", 6, LabelTable());
  writer->write_ranked(labels, sample_lists());
  const std::vector<std::string> more = {"three"};
  TopK last = sample_lists();
  last.count = Buffer<Index>::zeros(1);
  last.count.data()[0] = 1;
  writer->write_ranked(more, last);
  writer->commit();

  const std::vector<DatasetInfo> sets = list_datasets(folder_ / "recs.nc");
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].name, "recommendations");
  EXPECT_EQ(sets[0].width(), 6);
  EXPECT_EQ(sets[0].entries, 6);
  EXPECT_THAT(read_example_labels(sets[0]), ElementsAre("one", "two", "three"));
  const auto set = open_dataset(sets[0], Residency::memory, Role::input);
  HostBatch batch;
  const std::vector<Index> examples = {1, 2};
  set->gather(examples, batch);
  EXPECT_THAT(row_of(batch.csr(), 0), ElementsAre(1u, 5u));
  EXPECT_EQ(batch.csr().value[0], -0.125f);
  EXPECT_THAT(row_of(batch.csr(), 1), ElementsAre(4u));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(ScoreFiltersTest, NetcdfOfActivations) {
  const std::vector<std::string> labels = {"one", "two"};
  const auto writer = make_netcdf_writer(folder_ / "vectors.nc", "activations", 3, LabelTable());
  const float values[] = {1, 2, 3, -1, -2, -3};
  writer->write_values(labels, {values, 2, 3, 3});
  writer->commit();
  const std::vector<DatasetInfo> sets = list_datasets(folder_ / "vectors.nc");
  const auto set = open_dataset(sets.at(0), Residency::memory, Role::input);
  HostBatch batch;
  const std::vector<Index> examples = {1};
  set->gather(examples, batch);
  EXPECT_THAT(std::vector<float>(batch.matrix().row(0), batch.matrix().row(0) + 3),
              ElementsAre(-1.0f, -2.0f, -3.0f));
}

TEST_F(ScoreFiltersTest, TextOfActivations) {
  const std::vector<std::string> labels = {"one", "two"};
  const auto writer = make_text_writer(folder_ / "vectors.txt", ScoreFormat("g"), nullptr);
  const float values[] = {1, 2.5, -1, 0.125};
  writer->write_values(labels, {values, 2, 2, 2});
  writer->commit();
  EXPECT_EQ(read_text(folder_ / "vectors.txt"), "one\t1 2.5\ntwo\t-1 0.125\n");
}

}  // namespace
}  // namespace norn::tools
