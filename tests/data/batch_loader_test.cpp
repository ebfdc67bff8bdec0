// SPDX-License-Identifier: Apache-2.0
// The order of examples, and prefetched batches.

#include "src/data/batch_loader.h"

#include "support.h"
#include "tests/support/memory_datasets.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

namespace norn {
namespace {

using ::testing::HasSubstr;

std::vector<Index> identity(Index n) {
  std::vector<Index> order(std::size_t(n), 0);
  std::iota(order.begin(), order.end(), Index(0));
  return order;
}

TEST(BatchOrder, WithoutShufflingIsTheOrderOfTheFile) {
  const BatchOrder order(10, 4, false, 7);
  EXPECT_EQ(order.epoch(0), identity(10));
  EXPECT_EQ(order.epoch(5), identity(10));
  EXPECT_EQ(order.batches(), 3);
}

TEST(BatchOrder, IsAPermutationThatDependsOnSeedAndEpochOnly) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  for (const Index n : {1, 2, 3, 1000}) {
    const BatchOrder order(n, 4, true, seed), same(n, 64, true, seed), other(n, 4, true, seed + 1u);
    std::vector<Index> epoch = order.epoch(3);
    EXPECT_EQ(epoch, order.epoch(3));
    EXPECT_EQ(epoch, same.epoch(3));
    if (n == 1000) {
      EXPECT_NE(epoch, order.epoch(4));
      EXPECT_NE(epoch, other.epoch(3));
      EXPECT_NE(epoch, identity(n));
    }
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, identity(n));
  }
}

TEST(BatchOrder, VisitsEveryPermutationAboutEquallyOften) {
  const BatchOrder order(4, 1, true, 11);
  std::map<std::vector<Index>, int> seen;
  const int epochs = 24 * 500;
  for (int epoch = 0; epoch < epochs; ++epoch) ++seen[order.epoch(epoch)];
  ASSERT_EQ(seen.size(), 24u);
  double chi_square = 0;
  for (const auto& [permutation, count] : seen)
    chi_square += (count - 500.0) * (count - 500.0) / 500;
  EXPECT_LT(chi_square, 49.7);  // 23 degrees of freedom, one in a thousand
}

/// A set whose row e is the number e, and that notes what is asked of it.
class CountingSet final : public Dataset {
 public:
  explicit CountingSet(Index examples, Index failing = -1)
      : Dataset(make_info(examples)), failing_(failing) {}
  void gather(std::span<const Index> examples, HostBatch& batch) override {
    ++gathered;
    reader = std::this_thread::get_id();
    batch.example.assign(examples.begin(), examples.end());
    batch.examples = Index(examples.size());
    if (std::find(examples.begin(), examples.end(), failing_) != examples.end()) {
      throw DataError("example " + std::to_string(failing_) + " is damaged");
    }
  }
  void locate(std::span<const Index>, HostBatch&) override {}
  void read_rows(Index, Index, HostBatch&) override {}
  RowOffset row_entries() const override { return 0; }
  std::atomic<int> gathered{0};
  std::thread::id reader;

 private:
  static DatasetInfo make_info(Index examples) {
    DatasetInfo info;
    info.name = "counting";
    info.examples = examples;
    return info;
  }
  Index failing_;
};

TEST(BatchLoader, GivesEveryBatchOfEveryEpochInOrder) {
  CountingSet a(10), b(10);
  const BatchOrder order(10, 4, true, 3);
  BatchLoader loader({&a, &b}, order, 1, 0, 3);
  for (Index epoch = 1; epoch < 3; ++epoch) {
    const std::vector<Index> expected = order.epoch(epoch);
    for (Index number = 0; number < 3; ++number) {
      const LoadedBatch* batch = loader.next();
      ASSERT_NE(batch, nullptr);
      EXPECT_EQ(batch->epoch, epoch);
      EXPECT_EQ(batch->number, number);
      ASSERT_EQ(batch->sets.size(), 2u);
      const std::vector<Index> examples(expected.begin() + number * 4,
                                        expected.begin() + std::min<Index>(10, number * 4 + 4));
      EXPECT_EQ(batch->sets[0].example, examples);
      EXPECT_EQ(batch->sets[1].example, examples);
    }
  }
  EXPECT_EQ(loader.next(), nullptr);
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(BatchLoader, ReadsOfASetTheExamplesThatAreAskedFor) {
  CountingSet whole(23), part(23);
  const BatchOrder order(23, 9, true, 4);
  const auto asked = [](Index examples) { return Range{examples / 3, examples - 1}; };
  BatchLoader loader({&whole, {&part, asked}}, order, 0, 0, 2);
  for (Index number = 0; number < 6; ++number) {
    const LoadedBatch* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    const std::vector<Index>& all = batch->sets[0].example;
    EXPECT_EQ(batch->example, all);
    EXPECT_EQ(batch->sets[0].first, 0);
    EXPECT_EQ(batch->sets[1].first, Index(all.size()) / 3);
    EXPECT_EQ(batch->sets[1].example,
              std::vector(all.begin() + batch->sets[1].first, all.end() - 1));
  }
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(BatchLoader, StartsInTheMiddleAsIfItHadRunFromTheBeginning) {
  const auto set = make_sparse_dataset("s", 5, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4});
  const BatchOrder order(5, 2, true, 9);
  BatchLoader whole({set.get()}, order, 0, 0, 2);
  std::vector<std::vector<Index>> expected;
  while (const LoadedBatch* batch = whole.next()) expected.push_back(batch->sets[0].example);
  const auto again = make_sparse_dataset("s", 5, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4});
  BatchLoader resumed({again.get()}, order, 0, 2, 2);
  std::vector<std::vector<Index>> rest;
  while (const LoadedBatch* batch = resumed.next()) rest.push_back(batch->sets[0].example);
  EXPECT_EQ(rest, std::vector(expected.begin() + 2, expected.end()));
}

TEST(BatchLoader, ReadsAheadNoFurtherThanItsDepthOnOneOtherThread) {
  CountingSet set(100);
  const BatchOrder order(100, 1, false, 0);
  BatchLoader loader({&set}, order, 0, 0, 1, 2);
  ASSERT_NE(loader.next(), nullptr);
  // The batch in hand and two ahead: wait until they are there, then a little for one too many.
  while (set.gathered < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(set.gathered, 3);
  EXPECT_NE(set.reader, std::this_thread::get_id());
}

TEST(BatchLoader, ThrowsTheReadersErrorAfterTheBatchesBeforeIt) {
  CountingSet set(10, 5);
  BatchLoader loader({&set}, BatchOrder(10, 2, false, 0), 0, 0, 1);
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_NE(loader.next(), nullptr);
  EXPECT_THAT(message_of([&] { loader.next(); }), HasSubstr("example 5 is damaged"));
  EXPECT_THAT(message_of([&] { loader.next(); }), HasSubstr("example 5 is damaged"));
}

TEST(BatchLoader, RefusesSetsWithDifferentNumbersOfExamples) {
  CountingSet a(10), b(11);
  const BatchOrder order(10, 2, false, 0);
  EXPECT_THAT(message_of([&] {
                BatchLoader({&a, &b}, order, 0, 0, 1);
              }),
              HasSubstr("data set \"counting\" has 11 examples where 10 are expected"));
}

TEST(BatchLoader, EndsWhileItsThreadIsReading) {
  for (int i = 0; i < 50; ++i) {
    CountingSet set(1000);
    BatchLoader loader({&set}, BatchOrder(1000, 1, true, 1), 0, 0, 100);
    for (int k = 0; k < i % 5; ++k) loader.next();
  }
}

}  // namespace
}  // namespace norn
