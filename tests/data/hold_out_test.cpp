// SPDX-License-Identifier: Apache-2.0
// What is held back is never trained on, everything else is, and only the rule decides which is
// which.
#include "src/data/hold_out.h"

#include "src/data/batch_loader.h"
#include "tests/data/support.h"
#include "tests/support/memory_datasets.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

namespace norn {
namespace {

using Row = std::map<Column, float>;
using Rows = std::vector<Row>;

constexpr Index kWidth = 90;
constexpr Index kExamples = 301;

Rows random_rows(std::mt19937& random, bool valued) {
  Rows rows(kExamples);
  std::uniform_int_distribution<int> length(0, 14);
  std::uniform_int_distribution<Column> column(0, Column(kWidth) - 1);
  std::uniform_real_distribution<float> value(0.5f, 2.0f);
  for (Row& row : rows)
    for (int n = length(random); n > 0; --n) row[column(random)] = valued ? value(random) : 1.0f;
  return rows;
}

std::shared_ptr<Dataset> make_set(const Rows& rows, bool valued, Index width = kWidth) {
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  std::vector<float> values;
  for (const Row& row : rows) {
    for (const auto& [column, value] : row) {
      columns.push_back(column);
      if (valued) values.push_back(value);
    }
    begin.push_back(RowOffset(columns.size()));
  }
  return make_sparse_dataset("set", width, begin, columns, values);
}

Rows gathered(Dataset& set, const std::vector<Index>& examples) {
  HostBatch batch;
  set.gather(examples, batch);
  const CsrView x = batch.csr();
  Rows rows(static_cast<std::size_t>(batch.examples));
  for (Index r = 0; r < batch.examples; ++r)
    for (RowOffset i = x.row_begin[r]; i < x.row_begin[r + 1]; ++i)
      rows[std::size_t(r)][x.column[i]] += x.value ? x.value[i] : 1.0f;
  return rows;
}

std::vector<Index> all_of(const Dataset& set) {
  std::vector<Index> examples(static_cast<std::size_t>(set.info().examples));
  std::iota(examples.begin(), examples.end(), Index(0));
  return examples;
}

Rows all_rows(Dataset& set) {
  return gathered(set, all_of(set));
}

Row without(const Row& row, const Row& out) {
  Row left;
  for (const auto& entry : row)
    if (!out.contains(entry.first)) left.insert(entry);
  return left;
}

// Numbers of the examples of a view in the data.
std::vector<Index> numbers_of(Dataset& view) {
  HostBatch batch;
  view.gather(all_of(view), batch);
  return batch.example;
}

class HoldOut : public testing::TestWithParam<bool> {
 protected:
  std::mt19937 random_{fresh_seed()};
};

TEST_P(HoldOut, ByEntryHidesTheSameEntriesFromInputAndTarget) {
  const Rows rows = random_rows(random_, GetParam());
  const HoldOutRule rule{0.2, HoldOutBy::entry, 77};
  HeldOutViews views =
      hold_out(rule, {{make_set(rows, GetParam()), true}, {make_set(rows, GetParam()), false}}, 1);
  const Rows input = all_rows(*views.training[0]), target = all_rows(*views.training[1]);
  EXPECT_EQ(input, target);
  EXPECT_EQ(all_rows(*views.validation[0]), input);
  EXPECT_EQ(all_rows(*views.validation[1]), rows);
  EXPECT_EQ(all_rows(*views.trained_targets), target);
  Index hidden = 0, stored = 0;
  for (std::size_t e = 0; e < rows.size(); ++e) {
    EXPECT_EQ(input[e], without(rows[e], without(rows[e], input[e])));  // nothing is new
    EXPECT_TRUE(rows[e].empty() || !input[e].empty());
    hidden += Index(rows[e].size() - input[e].size());
    stored += Index(rows[e].size());
  }
  EXPECT_NEAR(double(hidden) / double(stored), 0.2, 0.03);
}

// What a run reads, batch by batch, against what it is later asked for.
TEST_P(HoldOut, ByEntryNeverTrainsOnWhatIsSought) {
  const Rows rows = random_rows(random_, GetParam()), others = random_rows(random_, false);
  HeldOutViews views = hold_out({0.3, HoldOutBy::entry, 5},
                                {{make_set(rows, GetParam()), true},
                                 {make_set(others, false), true},
                                 {make_set(rows, GetParam()), false}},
                                2);
  std::set<std::pair<Index, Column>> trained;
  std::vector<BatchSource> sets;
  for (const auto& set : views.training) sets.emplace_back(set.get());
  BatchLoader loader(sets, BatchOrder(kExamples, 17, true, 3), 0, 0, 3);
  while (const LoadedBatch* batch = loader.next())
    for (const HostBatch& set : batch->sets)
      for (Index r = 0; r < set.examples; ++r)
        for (RowOffset i = set.csr().row_begin[r]; i < set.csr().row_begin[r + 1]; ++i)
          trained.emplace(set.example[std::size_t(r)], set.csr().column[i]);
  const Rows whole = all_rows(*views.validation[2]), known = all_rows(*views.trained_targets);
  Index sought = 0;
  for (std::size_t e = 0; e < rows.size(); ++e)
    for (const auto& [column, value] : without(whole[e], known[e])) {
      EXPECT_FALSE(trained.contains({Index(e), column})) << "example " << e << " unit " << column;
      ++sought;
    }
  EXPECT_GT(sought, 200);
}

TEST_P(HoldOut, ByUserTrainsOnTheOthersAlone) {
  const Rows rows = random_rows(random_, GetParam());
  HeldOutViews views =
      hold_out({0.15, HoldOutBy::user, 9},
               {{make_set(rows, GetParam()), true}, {make_set(rows, GetParam()), false}}, 1);
  const std::vector<Index> trained = numbers_of(*views.training[0]);
  const std::vector<Index> held = numbers_of(*views.validation[1]);
  EXPECT_EQ(held.size(), 45u);
  std::vector<Index> both = trained;
  both.insert(both.end(), held.begin(), held.end());
  std::ranges::sort(both);
  EXPECT_EQ(both, all_of(*make_set(rows, false)));

  const Rows of_training = all_rows(*views.training[1]);
  for (std::size_t i = 0; i < trained.size(); ++i)
    EXPECT_EQ(of_training[i], rows[std::size_t(trained[i])]);
  const Rows known = all_rows(*views.validation[0]), whole = all_rows(*views.validation[1]);
  Index sought = 0, stored = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(whole[i], rows[std::size_t(held[i])]);
    EXPECT_EQ(known[i], without(whole[i], without(whole[i], known[i])));
    if (whole[i].size() >= 2) {
      EXPECT_LT(known[i].size(), whole[i].size());
      EXPECT_FALSE(known[i].empty());
    } else {
      EXPECT_EQ(known[i], whole[i]);
    }
    sought += Index(whole[i].size() - known[i].size());
    stored += Index(whole[i].size());
  }
  EXPECT_NEAR(double(sought) / double(stored), kSoughtOfUser, 0.06);
}

INSTANTIATE_TEST_SUITE_P(Values, HoldOut, testing::Bool());

TEST(HoldOutRules, ByUserLeavesInputsWholeThatHoldNoneOfTheTargets) {
  std::mt19937 random(fresh_seed());
  const Rows history = random_rows(random, false);
  Rows next(kExamples);
  for (std::size_t e = 0; e < next.size(); ++e)
    for (Column u = 0; next[e].empty(); ++u)
      if (!history[e].contains(u)) next[e][u] = 1.0f;
  HeldOutViews views =
      hold_out({0.1, HoldOutBy::user, 1},
               {{make_set(history, false), true}, {make_set(next, false), false}}, 1);
  const std::vector<Index> held = numbers_of(*views.validation[0]);
  const Rows known = all_rows(*views.validation[0]);
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_EQ(known[i], history[std::size_t(held[i])]);
}

// Whichever of the sets it is that the target's entries are known from.
TEST(HoldOutRules, ByUserSeekWhatAnyInputHolds) {
  std::mt19937 random(fresh_seed());
  const Rows rows = random_rows(random, false);
  const auto other = make_set(random_rows(random, false), false, kWidth + 1);
  const HoldOutRule rule{0.3, HoldOutBy::user, random()};
  const auto known_of = [&](const std::vector<HoldOutSet>& sets, std::size_t input) {
    const std::size_t target = sets.size() - 1;
    HeldOutViews views = hold_out(rule, sets, target);
    return all_rows(*views.validation[input]);
  };
  const HoldOutSet input{make_set(rows, false), true}, target{make_set(rows, false), false};
  const Rows alone = known_of({input, target}, 0);
  std::vector<HoldOutSet> sets;
  const std::size_t before = 1 + random() % 3;
  for (std::size_t i = 0; i < before; ++i) sets.push_back({other, true});
  sets.push_back(input);
  sets.push_back(target);
  EXPECT_EQ(known_of(sets, before), alone);
  const HoldOutRule none{0.3, HoldOutBy::entry, rule.seed};
  EXPECT_NE(alone, all_rows(*hold_out(none, {input, target}, 1).validation[1]));
}

// Neither the order nor the size of batches, nor streaming, nor a set that stands elsewhere.
TEST(HoldOutRules, DependOnNothingButSeedExampleAndEntries) {
  std::mt19937 random(fresh_seed());
  const Rows rows = random_rows(random, false);
  const auto views_of = [&](std::uint64_t seed) {
    return hold_out({0.2, HoldOutBy::entry, seed},
                    {{make_set(rows, false), true}, {make_set(rows, false), false}}, 1);
  };
  const Rows expected = all_rows(*views_of(3).training[0]);
  EXPECT_NE(all_rows(*views_of(4).training[0]), expected);
  HeldOutViews again = views_of(3);
  std::vector<Index> order = all_of(*again.training[0]);
  std::ranges::shuffle(order, random);
  for (std::size_t i = 0; i < order.size();) {
    const std::size_t count = std::min<std::size_t>(1 + random() % 20, order.size() - i);
    const std::vector<Index> some(order.begin() + std::ptrdiff_t(i),
                                  order.begin() + std::ptrdiff_t(i + count));
    Dataset& view = *again.training[random() % 2];
    const Rows got = gathered(view, some);
    for (std::size_t r = 0; r < some.size(); ++r) EXPECT_EQ(got[r], expected[std::size_t(some[r])]);
    i += count;
  }
}

TEST(HoldOutRules, ReadTheSameFromFilesWhoseRowsExamplesShare) {
  const TempDir folder;
  const char* set =
      ":name%d = \"s%d\"; :kind%d = 0u; :dimensions%d = 1u; :width%d = 9u; :attributes%d = 67u; "
      ":dataType%d = 0u; ";
  std::string cdl = "netcdf x { dimensions: ";
  std::string variables, attributes = ":datasets = 2u; ", data;
  for (const char* n : {"0", "1"}) {
    const std::string s = n;
    cdl +=
        "examplesDim" + s + " = 5; uniqueExamplesDim" + s + " = 3; sparseDataDim" + s + " = 12; ";
    variables += "uint64 sparseStart" + s + "(uniqueExamplesDim" + s + "), sparseEnd" + s +
                 "(uniqueExamplesDim" + s + "); uint sparseIndex" + s + "(sparseDataDim" + s +
                 "), index" + s + "(examplesDim" + s + "); ";
    std::string text = set;
    for (std::size_t at; (at = text.find("%d")) != std::string::npos;) text.replace(at, 2, s);
    attributes += text;
    data += "sparseStart" + s + " = 0, 5, 8; sparseEnd" + s + " = 5, 8, 12; sparseIndex" + s +
            " = 5, 1, 7, 0, 2, 4, 3, 8, 6, 1, 2, 3; index" + s + " = 2, 0, 1, 0, 2; ";
  }
  write_cdl(folder / "x.nc", cdl + "variables: " + variables + attributes + "data: " + data + "}");
  const std::vector<DatasetInfo> infos = list_datasets(folder / "x.nc");
  std::vector<Rows> seen;
  for (const Residency residency : {Residency::memory, Residency::stream}) {
    HeldOutViews views = hold_out({0.4, HoldOutBy::entry, 2},
                                  {{open_dataset(infos[0], residency, Role::input), true},
                                   {open_dataset(infos[1], residency, Role::target), false}},
                                  1);
    Dataset& view = *views.training[0];
    seen.push_back(all_rows(view));
    // As a GPU's copy reads them: stored rows by number, and batches that name them.
    HostBatch rows, located;
    view.read_rows(1, 3, rows);
    view.locate(std::vector<Index>{4, 1}, located);
    EXPECT_EQ(located.row, (std::vector<Index>{4, 1}));
    EXPECT_GE(view.row_entries(), rows.csr().entries());
    EXPECT_GE(located.entries, Index(seen.back()[4].size() + seen.back()[1].size()));
    EXPECT_EQ(view.info().unique_examples, 5);
    for (Index r = 0; r < 3; ++r)
      EXPECT_EQ(rows.csr().row_begin[r + 1] - rows.csr().row_begin[r],
                Index(seen.back()[std::size_t(r + 1)].size()));
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_NE(seen[0][0], seen[0][4]);  // two examples share a stored row, not what is hidden of it
}

TEST(HoldOutRules, NeedTwoExamples) {
  EXPECT_THAT(
      message_of<UsageError>([] {
        hold_out({0.5, HoldOutBy::user, 1}, {{make_sparse_dataset("one", 3, {0, 1}, {2}), false}},
                 0);
      }),
      testing::HasSubstr("validation by user: 1 example cannot be shared out; give more data"));
}

}  // namespace
}  // namespace norn
