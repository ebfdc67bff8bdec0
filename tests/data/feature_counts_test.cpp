// SPDX-License-Identifier: Apache-2.0
// In how many examples each feature is stored, against loops over gathered batches.
#include "src/data/feature_counts.h"

#include "src/data/hold_out.h"
#include "support.h"
#include "tests/support/memory_datasets.h"

#include <memory>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::ElementsAre;

// Examples one by one, as training would see them.
std::vector<std::int64_t> counted_plainly(Dataset& set) {
  std::vector<std::int64_t> counts(std::size_t(set.info().width()), 0);
  HostBatch batch;
  for (Index e = 0; e < set.info().examples; ++e) {
    set.gather(std::vector<Index>{e}, batch);
    const CsrView x = batch.csr();
    for (const Column c : std::set<Column>(x.column, x.column + x.entries()))
      ++counts[std::size_t(c)];
  }
  return counts;
}

std::shared_ptr<Dataset> random_set(Index examples, Index width, bool valued) {
  std::mt19937 random(fresh_seed());
  std::uniform_int_distribution<int> length(0, 12);
  std::uniform_int_distribution<Column> column(0, Column(width) - 1);
  std::vector<RowOffset> begin = {0};
  std::vector<Column> columns;
  for (Index e = 0; e < examples; ++e) {
    for (int n = length(random); n > 0; --n) columns.push_back(column(random));
    begin.push_back(RowOffset(columns.size()));
  }
  std::vector<float> values(valued ? columns.size() : 0, 0.0f);
  return make_sparse_dataset("set", width, begin, columns, values);
}

TEST(FeatureCounts, CountExamplesWhateverTheValues) {
  for (const bool valued : {false, true}) {
    const auto set = random_set(3000, 40, valued);
    EXPECT_EQ(count_features(*set, set->info().width()), counted_plainly(*set));
  }
}

TEST(FeatureCounts, CountAUnitThatARowNamesTwiceOnce) {
  const auto set = make_sparse_dataset("set", 4, {0, 3, 3, 5}, {2, 0, 2, 2, 1});
  EXPECT_THAT(count_features(*set, set->info().width()), ElementsAre(1, 1, 2, 0));
}

TEST(FeatureCounts, CountSharedRowsOnceForEachExample) {
  const TempDir folder;
  write_cdl(folder / "x.nc",
            "netcdf x { dimensions: examplesDim0 = 5; uniqueExamplesDim0 = 2; sparseDataDim0 = 3; "
            "variables: uint sparseStart0(uniqueExamplesDim0), sparseEnd0(uniqueExamplesDim0); "
            "uint sparseIndex0(sparseDataDim0); uint index0(examplesDim0); "
            ":datasets = 1u; :name0 = \"gl\"; :attributes0 = 67u; :kind0 = 0u; :dataType0 = 0u; "
            ":dimensions0 = 1u; :width0 = 4u; data: sparseStart0 = 0, 1; sparseEnd0 = 1, 3; "
            "sparseIndex0 = 0, 0, 3; index0 = 1, 1, 0, 1, 1; }");
  const DatasetInfo info = list_datasets(folder / "x.nc").at(0);
  for (const Residency residency : {Residency::memory, Residency::stream}) {
    const auto set = open_dataset(info, residency, Role::input);
    EXPECT_THAT(count_features(*set, set->info().width()), ElementsAre(5, 0, 0, 4));
  }
}

TEST(FeatureCounts, CountNothingThatIsHeldBack) {
  for (const HoldOutBy by : {HoldOutBy::user, HoldOutBy::entry}) {
    const auto set = random_set(700, 30, false);
    HeldOutViews views = hold_out({0.3, by, 5}, {{set, true}, {set, false}}, 1);
    Dataset& trained = *views.training[0];
    const std::vector<std::int64_t> counts = count_features(trained, trained.info().width());
    EXPECT_EQ(counts, counted_plainly(trained));
    const std::vector<std::int64_t> whole = count_features(*set, set->info().width());
    const auto sum = [](const std::vector<std::int64_t>& all) {
      return std::accumulate(all.begin(), all.end(), std::int64_t(0));
    };
    EXPECT_LT(double(sum(counts)), 0.85 * double(sum(whole)));
    EXPECT_GT(double(sum(counts)), 0.55 * double(sum(whole)));
  }
}

TEST(FeatureCounts, OfDenseSetsThereAreNone) {
  const auto set = make_dense_dataset("set", 2, {1, 2, 3, 4});
  EXPECT_THROW(count_features(*set, set->info().width()), Error);
}

}  // namespace
}  // namespace norn
