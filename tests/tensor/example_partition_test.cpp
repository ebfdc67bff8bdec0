// SPDX-License-Identifier: Apache-2.0
// Runs cover a batch once, and ranks share them without changing them.
#include "src/tensor/example_partition.h"

#include "norn/base/error.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

std::vector<Index> batches(std::uint64_t seed) {
  std::vector<Index> all;
  for (Index batch = 0; batch <= 40; ++batch) all.push_back(batch);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 50; ++i) all.push_back(Index(random() % 100000));
  return all;
}

class ExamplePartitionTest : public testing::Test {
 protected:
  const std::uint64_t seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

TEST_F(ExamplePartitionTest, RunsCoverTheBatchOnceInOrder) {
  for (const Index batch : batches(seed_)) {
    const ExamplePartition partition = ExamplePartition::make(batch);
    SCOPED_TRACE(testing::Message() << "batch " << batch);
    Index at = 0;
    for (Index run = 0; run < ExamplePartition::kRuns; ++run) {
      const Range examples = partition.examples(run);
      EXPECT_EQ(examples.begin, at);
      const Index left = batch - at;
      EXPECT_EQ(examples.count(), std::min(left, (batch + 7) / 8));
      at = examples.end;
    }
    EXPECT_EQ(at, batch);
  }
}

TEST_F(ExamplePartitionTest, RanksHaveWholeRunsInOrder) {
  for (const Index batch : batches(seed_))
    for (int ranks = 1; ranks <= 11; ++ranks) {
      const ExamplePartition partition = ExamplePartition::make(batch);
      SCOPED_TRACE(testing::Message() << "batch " << batch << " ranks " << ranks);
      Index run = 0;
      Index at = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range runs = ExamplePartition::runs_of(rank, ranks);
        EXPECT_EQ(runs.begin, run);
        run = runs.end;
        const Range mine = partition.examples_of(rank, ranks);
        EXPECT_EQ(mine.begin, at);
        Index count = 0;
        for (Index r = runs.begin; r < runs.end; ++r) count += partition.examples(r).count();
        EXPECT_EQ(mine.count(), count);
        at = mine.end;
      }
      EXPECT_EQ(run, ExamplePartition::kRuns);
      EXPECT_EQ(at, batch);
    }
}

// A shorter batch may give a rank more examples than the longest does.
TEST_F(ExamplePartitionTest, KnowsTheMostThatARankMayHave) {
  for (Index batch = 1; batch <= 70; ++batch)
    for (int ranks = 1; ranks <= 9; ++ranks)
      for (int rank = 0; rank < ranks; ++rank) {
        Index most = 0;
        for (Index shorter = 0; shorter <= batch; ++shorter)
          most = std::max(most, ExamplePartition::make(shorter).examples_of(rank, ranks).count());
        const Index capacity = ExamplePartition::make(batch).most_of(rank, ranks);
        EXPECT_GE(capacity, most) << batch << " " << rank << " of " << ranks;
        EXPECT_LE(capacity, batch);
      }
}

TEST_F(ExamplePartitionTest, ThreeRanksHaveThreeThreeAndTwoRuns) {
  EXPECT_EQ(ExamplePartition::runs_of(0, 3), (Range{0, 3}));
  EXPECT_EQ(ExamplePartition::runs_of(1, 3), (Range{3, 6}));
  EXPECT_EQ(ExamplePartition::runs_of(2, 3), (Range{6, 8}));
  EXPECT_EQ(ExamplePartition::runs_of(8, 9), (Range{8, 8}));
}

TEST_F(ExamplePartitionTest, RefusesWhatThereIsNot) {
  EXPECT_THROW(ExamplePartition::make(-1), ShapeError);
  EXPECT_THROW(ExamplePartition::make(9).examples(8), ShapeError);
  EXPECT_THROW(ExamplePartition::runs_of(2, 2), ShapeError);
}

}  // namespace
}  // namespace norn
