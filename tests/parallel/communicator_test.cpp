// SPDX-License-Identifier: Apache-2.0
// Communicators of one process and of threads: the common checks, and ranks that fail.

#include "src/parallel/communicator.h"

#include "communicator_checks.h"
#include "norn/parallel/mpi_session.h"
#include "tests/support/no_threads.h"
#include "tests/support/thread_group.h"

#include <atomic>
#include <cstdlib>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace norn {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StrEq;

class SharedChecks : public testing::TestWithParam<checks::Check> {
 protected:
  const std::uint64_t seed_ = std::random_device{}();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
};

TEST_P(SharedChecks, HoldInOneProcess) {
  const std::unique_ptr<Communicator> one = make_single_process();
  EXPECT_EQ(one->describe(), "one process");
  EXPECT_NO_THROW(GetParam().run(*one, seed_));
}

TEST_P(SharedChecks, HoldForThreadGroups) {
  for (int ranks : {1, 2, 3, 4, 7}) {
    std::atomic<int> runs{0};
    EXPECT_NO_THROW(run_thread_group(ranks, [&](Communicator& communicator) {
      GetParam().run(communicator, seed_);
      ++runs;
    })) << ranks;
    EXPECT_EQ(runs, ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(Communicator, SharedChecks, testing::ValuesIn(checks::kChecks),
                         [](const auto& check) { return std::string(check.param.name); });

TEST(ThreadGroup, RanksAreNumberedAndDescribed) {
  std::vector<int> seen(3, 0);
  run_thread_group(3, [&](Communicator& ranks) {
    ++seen[std::size_t(ranks.rank())];
    checks::expect(ranks.size() == 3 && ranks.describe() == "threads, 3 ranks", ranks, "describe");
  });
  EXPECT_EQ(seen, (std::vector<int>{1, 1, 1}));
  EXPECT_THROW(run_thread_group(0, [](Communicator&) {}), ShapeError);
}

TEST(ThreadGroup, ErrorOfOneRankIsThrownAndEndsTheOthersCollectives) {
  for (int ranks : {2, 3, 4}) {
    for (int failing = 0; failing < ranks; ++failing) {
      std::atomic<int> released{0};
      try {
        run_thread_group(ranks, [&](Communicator& communicator) {
          communicator.barrier();
          if (communicator.rank() == failing) throw DataError("rank's own trouble");
          try {
            for (;;) communicator.barrier();
          } catch (const CommunicationError& error) {
            EXPECT_THAT(error.what(),
                        AllOf(HasSubstr("rank " + std::to_string(failing) + " failed"),
                              HasSubstr("barrier")));
            ++released;
            throw;
          }
        });
        FAIL() << "the error was lost";
      } catch (const DataError& error) {
        EXPECT_STREQ(error.what(), "rank's own trouble");
      }
      EXPECT_EQ(released, ranks - 1);
    }
  }
}

TEST(ThreadGroup, AFailedCollectiveNamesThePlaceOfTheRank) {
  try {
    run_thread_group(2, [](Communicator& ranks) {
      ranks.set_place({"training", 3, 14});
      if (ranks.rank() == 0) ranks.barrier();
    });
    FAIL() << "the collective completed without rank 1";
  } catch (const CommunicationError& error) {
    EXPECT_STREQ(error.what(),
                 "rank 0 of 2 (training, epoch 3, batch 14): barrier cannot complete: rank 1 has "
                 "ended its work already");
  }
  EXPECT_EQ(Place().text(), "beginning");
  EXPECT_EQ((Place{"predicting", 0, 7}.text()), "predicting, batch 7");
}

TEST(ThreadGroup, RankThatReturnsEarlyDoesNotHangTheOthers) {
  try {
    run_thread_group(3, [](Communicator& ranks) {
      if (ranks.rank() != 1) ranks.barrier();
    });
    FAIL() << "the collective completed without rank 1";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 has ended its work already"));
  }
}

TEST(ThreadGroup, RankThatEndsAfterTheLastCollectiveDisturbsNobody) {
  for (int trial = 0; trial < 200; ++trial) {
    EXPECT_NO_THROW(run_thread_group(4, [](Communicator& ranks) {
      for (int i = 0; i <= 3; ++i) ranks.barrier();
    }));
  }
}

TEST(ThreadGroup, DifferentCallsAreToldApart) {
  try {
    run_thread_group(2, [](Communicator& ranks) {
      std::vector<float> data(6);
      const std::vector<Range> shares = {{0, 1}, {1, 2}};
      if (ranks.rank() == 0) {
        ranks.barrier();
      } else {
        ranks.all_gather_columns({data.data(), 3, 2, 2}, shares);
      }
    });
    FAIL() << "a barrier met an all_gather_columns";
  } catch (const CommunicationError& error) {
    // Whoever looks first.
    EXPECT_THAT(
        error.what(),
        AnyOf(StrEq("rank 0 of 2: barrier [0 x 0] met all_gather_columns [3 x 2] on rank 1; "
                    "every rank must make the same calls in the same order"),
              StrEq("rank 1 of 2: all_gather_columns [3 x 2] met barrier [0 x 0] on rank 0; "
                    "every rank must make the same calls in the same order")));
  }
}

TEST(ThreadGroup, ThreadsThatCannotBeStartedAreCounted) {
  EXPECT_EQ(test::message_without_threads([] { run_thread_group(2, [](Communicator&) {}); }),
            "thread 1 of 2 could not be started (Resource temporarily unavailable); ask for fewer "
            "ranks");
}

TEST(MpiSession, WithoutALauncherIsOneRank) {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMIX_RANK") || std::getenv("PMI_RANK") ||
      std::getenv("SLURM_PROCID")) {
    GTEST_SKIP() << "this test was started by an MPI launcher";
  }
  MpiSession session(nullptr, nullptr);
  EXPECT_EQ(session.rank(), 0);
  EXPECT_EQ(session.size(), 1);
  EXPECT_EQ(session.world()->describe(), "one process");
}

}  // namespace
}  // namespace norn
