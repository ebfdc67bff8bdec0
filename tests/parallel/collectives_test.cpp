// SPDX-License-Identifier: Apache-2.0
// Collectives of devices, as far as main memory can stand for a device's: the common checks.

#include "src/parallel/collectives.h"

#include "collectives_checks.h"
#include "tests/support/thread_group.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

class CollectivesChecks : public testing::TestWithParam<checks::Check> {
 protected:
  const std::uint64_t seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

TEST_P(CollectivesChecks, HoldForTheCommunicatorsOwn) {
  for (int ranks : {1, 2, 3, 5}) {
    EXPECT_NO_THROW(run_thread_group(ranks, [&](Communicator& communicator) {
      const auto collectives = make_host_collectives(communicator);
      checks::ThroughCollectives through(communicator, *collectives, host_memory());
      GetParam().run(through, seed_);
    })) << ranks;
  }
}

TEST_P(CollectivesChecks, HoldThroughMainMemory) {
  for (int ranks : {2, 3, 5}) {
    EXPECT_NO_THROW(run_thread_group(ranks, [&](Communicator& communicator) {
      WorkQueue queue;
      const auto collectives = make_staged_collectives(communicator, host_memory(), queue);
      checks::ThroughCollectives through(communicator, *collectives, host_memory());
      GetParam().run(through, seed_);
    })) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, CollectivesChecks, testing::ValuesIn(checks::kChecks),
                         [](const auto& check) { return std::string(check.param.name); });

class CollectivesOfRows : public testing::Test {
 protected:
  const std::uint64_t seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

TEST(Collectives, WaitsForTheDeviceUntilARankFails) {
  class NeverReached final : public WorkQueue {
    bool reached(Mark) override { return false; }
  };
  try {
    run_thread_group(2, [](Communicator& communicator) {
      if (communicator.rank() == 1) throw DataError("no such file");
      NeverReached queue;
      communicator.set_place({"training", 1, 2});
      make_staged_collectives(communicator, host_memory(), queue)->wait(queue, 0);
      FAIL() << "the device never came so far";
    });
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "no such file");
  }
}

TEST(Collectives, RefusesAnExchangeWithoutWhatWasAnnounced) {
  const auto one = make_single_process();
  const auto collectives = make_host_collectives(*one);
  const std::vector<Range> shares{{0, 4}};
  const std::vector<Index> counts{1};
  EXPECT_THROW(collectives->exchange_columns({}, 3, counts, shares), ShapeError);
  std::vector<float> data(12);
  const std::vector<MatrixView<const float>> mine{{data.data(), 3, 4, 4}};
  EXPECT_TRUE(collectives->exchange_columns(mine, 3, counts, shares).empty());
}

// The host's and those through main memory: rows without gaps, of each rank as shares say.
template <typename Body>
void for_all_kinds(int ranks, const Body& body) {
  run_thread_group(ranks, [&](Communicator& communicator) {
    WorkQueue queue;
    body(communicator, *make_host_collectives(communicator));
    body(communicator, *make_staged_collectives(communicator, host_memory(), queue));
  });
}

TEST_F(CollectivesOfRows, AreGatheredAsBf16) {
  const auto value = [](Index r, Index c) { return std::uint16_t(1000 * r + c); };
  for (int ranks : {1, 2, 3, 5})
    EXPECT_NO_THROW(for_all_kinds(ranks, [&](Communicator& communicator, Collectives& collectives) {
      for (const checks::Shape& shape : checks::kShapes)
        for (const auto& shares : checks::cuts(ranks, shape.rows, seed_)) {
          Matrix<Bfloat16> whole(shape.rows, shape.cols);
          whole.fill_zero();
          const Range mine = shares[std::size_t(communicator.rank())];
          for (Index r = mine.begin; r < mine.end; ++r)
            for (Index c = 0; c < shape.cols; ++c) whole.view()(r, c).bits = value(r, c);
          collectives.all_gather_rows(whole.view(), shares);
          for (Index r = 0; r < shape.rows; ++r)
            for (Index c = 0; c < shape.cols; ++c)
              checks::expect(whole.view()(r, c).bits == value(r, c), communicator, "wrong row");
        }
    })) << ranks;
}

TEST_F(CollectivesOfRows, AreAddedUpForTheirOwners) {
  const auto term = [](int rank, Index r, Index c) {
    return std::int64_t(rank + 1) * (1000 * r + c - 500);
  };
  for (int ranks : {1, 2, 3, 5})
    EXPECT_NO_THROW(for_all_kinds(ranks, [&](Communicator& communicator, Collectives& collectives) {
      for (const checks::Shape& shape : checks::kShapes)
        for (const auto& shares : checks::cuts(ranks, shape.rows, seed_)) {
          Matrix<std::int64_t> fine(shape.rows, shape.cols), coarse(shape.rows, shape.cols);
          for (Index r = 0; r < shape.rows; ++r)
            for (Index c = 0; c < shape.cols; ++c) {
              fine.view()(r, c) = term(communicator.rank(), r, c);
              coarse.view()(r, c) = -fine.view()(r, c);
            }
          const std::vector<MatrixView<std::int64_t>> both{fine.view(), coarse.view()};
          collectives.reduce_scatter_rows(both, shares);
          const Range mine = shares[std::size_t(communicator.rank())];
          const std::int64_t weight = std::int64_t(ranks) * (ranks + 1) / 2;
          for (Index r = mine.begin; r < mine.end; ++r)
            for (Index c = 0; c < shape.cols; ++c) {
              const std::int64_t sum = weight * term(0, r, c);
              checks::expect(fine.view()(r, c) == sum && coarse.view()(r, c) == -sum, communicator,
                             "wrong sum of rows");
            }
        }
    })) << ranks;
}

TEST_F(CollectivesOfRows, MayHaveNoGaps) {
  const auto one = make_single_process();
  const auto collectives = make_host_collectives(*one);
  std::vector<Bfloat16> data(15);
  const std::vector<Range> shares{{0, 3}};
  EXPECT_THROW(collectives->all_gather_rows(MatrixView<Bfloat16>{data.data(), 3, 4, 5}, shares),
               ShapeError);
  EXPECT_NO_THROW(collectives->all_gather_rows(MatrixView<Bfloat16>{data.data(), 3, 5, 5}, shares));
}

TEST(Collectives, OfNcclNeedABuildWithIt) {
  if (has_nccl()) GTEST_SKIP() << "this build has NCCL";
  const auto one = make_single_process();
  WorkQueue queue;
  try {
    make_gpu_collectives(*one, 0, queue, host_memory());
    FAIL();
  } catch (const CommunicationError& error) {
    EXPECT_STREQ(error.what(), "this build has no NCCL; install it and build again");
  }
}

// Workspace of rank 0 of two, of 8 rows: shares of 10 and 6 units.
TEST(Collectives, WorkspaceForPackedColumns) {
  const std::vector<Range> shares{{0, 10}, {10, 16}};
  EXPECT_EQ(nccl_workspace(8, shares, 4, 0), 2 * 8 * 10 * 4);
  EXPECT_EQ(nccl_workspace(8, shares, 2, 2), 2 * 8 * 10 * 16);
  const std::vector<Range> one_owner{{0, 16}, {16, 16}};
  EXPECT_EQ(nccl_workspace(8, one_owner, 4, 0), 0);
  const std::vector<Index> counts{3, 1};
  EXPECT_EQ(nccl_exchange_workspace(8, counts, shares), 8 * (3 * 6 + 1 * 10) * 4);
}

}  // namespace
}  // namespace norn
