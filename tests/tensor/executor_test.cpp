// SPDX-License-Identifier: Apache-2.0
// Threads: every task once, on a lane of its own, whatever else happens.

#include "src/tensor/executor.h"

#include "norn/base/error.h"
#include "tests/support/no_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace norn {
namespace {

class ExecutorTest : public testing::TestWithParam<int> {
 protected:
  Executor executor_{GetParam()};
};

TEST_P(ExecutorTest, RunsEveryIndexOnceOnAValidLane) {
  EXPECT_EQ(executor_.lanes(), GetParam());
  for (Index count : {0, 1, 2, 3, 7, 8, 1000}) {
    std::vector<int> runs(std::size_t(count), 0);  // not atomic: an index belongs to one thread
    std::atomic<int> bad_lanes{0};
    executor_.for_each(count, [&](Index index, int lane) {
      ++runs[std::size_t(index)];
      if (lane < 0 || lane >= executor_.lanes()) ++bad_lanes;
    });
    EXPECT_TRUE(std::all_of(runs.begin(), runs.end(), [](int n) { return n == 1; })) << count;
    EXPECT_EQ(bad_lanes, 0);
  }
}

TEST_P(ExecutorTest, LaneIsUsedByOneTaskAtATime) {
  std::vector<long> scratch(std::size_t(executor_.lanes()), 0);  // not atomic on purpose
  executor_.for_each(2000, [&](Index index, int lane) { scratch[std::size_t(lane)] += index; });
  EXPECT_EQ(std::accumulate(scratch.begin(), scratch.end(), 0L), 1999L * 2000 / 2);
}

TEST_P(ExecutorTest, RangesCoverTheCountWithoutOverlap) {
  for (Index count : {0, 1, 9, 10, 11, 1003}) {
    std::vector<int> runs(std::size_t(count), 0);
    executor_.for_ranges(count, 10, [&](Index begin, Index end, int) {
      EXPECT_LE(end - begin, 10);
      EXPECT_EQ(begin % 10, 0);
      for (Index i = begin; i < end; ++i) ++runs[std::size_t(i)];
    });
    EXPECT_TRUE(std::all_of(runs.begin(), runs.end(), [](int n) { return n == 1; })) << count;
  }
  EXPECT_THROW(executor_.for_ranges(5, 0, [](Index, Index, int) {}), ShapeError);
}

TEST_P(ExecutorTest, NestedCallRunsInlineOnTheSameLane) {
  std::atomic<int> inner{0};
  std::atomic<int> strayed{0};
  executor_.for_each(20, [&](Index, int lane) {
    const std::thread::id thread = std::this_thread::get_id();
    executor_.for_each(30, [&](Index, int inner_lane) {
      ++inner;
      if (inner_lane != lane || std::this_thread::get_id() != thread) ++strayed;
      executor_.for_each(2, [&](Index, int innermost) { strayed += innermost != lane; });
    });
  });
  EXPECT_EQ(inner, 600);
  EXPECT_EQ(strayed, 0);
}

TEST_P(ExecutorTest, ExceptionOfATaskReachesTheCaller) {
  for (int trial = 0; trial < 20; ++trial) {
    try {
      executor_.for_each(100, [&](Index index, int) {
        if (index == 37) throw std::runtime_error("task 37");
      });
      FAIL() << "the exception was lost";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "task 37");
    }
    std::atomic<int> runs{0};
    executor_.for_each(50, [&](Index, int) { ++runs; });  // and it still works
    EXPECT_EQ(runs, 50);
  }
}

TEST_P(ExecutorTest, WhenAllTasksThrowTheLowestIndexIsReported) {
  try {
    executor_.for_each(100,
                       [&](Index index, int) { throw std::runtime_error(std::to_string(index)); });
    FAIL() << "the exceptions were lost";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "0");  // task 0 is always begun
  }
}

TEST_P(ExecutorTest, ExceptionOfANestedTaskReachesTheCaller) {
  EXPECT_THROW(executor_.for_each(4,
                                  [&](Index, int) {
                                    executor_.for_each(4, [](Index index, int) {
                                      if (index == 3) throw ShapeError("inner");
                                    });
                                  }),
               ShapeError);
}

TEST_P(ExecutorTest, ManySmallJobsLoseNoTask) {
  long expected = 0;
  std::atomic<long> sum{0};
  for (int job = 0; job < 20000; ++job) {
    const Index count = 1 + job % 5;
    executor_.for_each(count, [&](Index index, int) { sum += index + 1; });
    expected += count * (count + 1) / 2;
  }
  EXPECT_EQ(sum, expected);
}

TEST_P(ExecutorTest, SleepingThreadsWakeForTheNextJob) {
  for (int job = 0; job < 20; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> runs{0};
    executor_.for_each(executor_.lanes() * 2, [&](Index, int) {
      ++runs;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
    EXPECT_EQ(runs, executor_.lanes() * 2);
  }
}

TEST_P(ExecutorTest, CallsFromSeveralThreadsWaitForEachOther) {
  std::vector<long> sums(std::size_t(executor_.lanes()), 0);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int job = 0; job < 200; ++job) {
        executor_.for_each(10, [&](Index, int lane) { ++sums[std::size_t(lane)]; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0L), 3 * 200 * 10);
}

INSTANTIATE_TEST_SUITE_P(Lanes, ExecutorTest, testing::Values(1, 2, 7));

TEST(Executor, TasksReallyRunAtTheSameTime) {
  // Each of the four tasks waits for the other three: with fewer threads this would never end.
  Executor executor(4);
  std::atomic<int> here{0};
  executor.for_each(4, [&](Index, int) {
    ++here;
    while (here < 4) std::this_thread::yield();
  });
  EXPECT_EQ(here, 4);
}

TEST(Executor, TakesTheCoresOfTheProcessByDefault) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(Executor().lanes(), available_cores());
  EXPECT_THROW(Executor(-1), ShapeError);
  EXPECT_THROW(Executor(65536), ShapeError);
}

TEST(Executor, CanBeMadeAndDestroyedAtOnce) {
  for (int i = 0; i < 100; ++i) {
    Executor executor(4);
    if (i % 2 == 0) executor.for_each(3, [](Index, int) {});
  }
}

TEST(Executor, OneMayBeUsedInsideATaskOfAnother) {
  Executor outer(2);
  Executor inner(2);
  std::atomic<int> runs{0};
  outer.for_each(8, [&](Index, int) { inner.for_each(5, [&](Index, int) { ++runs; }); });
  EXPECT_EQ(runs, 40);
}

// Ends with three threads alone.
int meet(Executor& executor) {
  std::atomic<int> here{0};
  executor.for_each(3, [&](Index, int) {
    ++here;
    while (here < 3) std::this_thread::yield();
  });
  return here;
}

// AddressSanitizer holds locks while a thread begins, which a child would never see opened: so all
// threads meet before a fork.
TEST(Executor, OfAParentStartsThreadsOfItsOwnInAForkedChild) {
  auto executor = std::make_unique<Executor>(3);
  meet(*executor);
  const ::pid_t child = ::fork();
  if (child == 0) {
    const int here = meet(*executor);
    executor.reset();
    const Executor unused(2);
    ::_exit(here == 3 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::atomic<int> runs{0};
  executor->for_each(7, [&](Index, int) { ++runs; });
  EXPECT_EQ(runs, 7);
}

TEST(Executor, ThatAForkedChildDoesNotUseEndsThere) {
  auto executor = std::make_unique<Executor>(3);
  meet(*executor);
  const ::pid_t child = ::fork();
  if (child == 0) {
    executor.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Executor, ThreadsThatCannotBeStartedAreCounted) {
  EXPECT_EQ(test::message_without_threads([] { Executor executor(3); }),
            "thread 2 of 3 could not be started (Resource temporarily unavailable); ask for fewer "
            "threads");
}

}  // namespace
}  // namespace norn
