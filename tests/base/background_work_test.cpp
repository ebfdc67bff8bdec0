// SPDX-License-Identifier: Apache-2.0
// Work that a thread does: all of it, in order, in bounded memory, and up to the first failure.
#include "src/base/background_work.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace norn {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t(1) << 60;

// Lets a piece of work wait until it is opened.
class Gate {
 public:
  std::function<void()> work() {
    return [opened = opened_] { opened.wait(); };
  }
  void open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

// Counts the bytes that pieces hold which have not been done.
class Held {
 public:
  std::shared_ptr<void> bytes(std::int64_t count) {
    const std::int64_t now = held_ += count;
    if (now > most_) most_ = now;
    return {nullptr, [this, count](void*) { held_ -= count; }};
  }
  std::int64_t most() const { return most_; }
  std::int64_t now() const { return held_; }

 private:
  std::atomic<std::int64_t> held_ = 0;
  std::atomic<std::int64_t> most_ = 0;
};

TEST(BackgroundWork, IsDoneInOrderBesideTheCaller) {
  std::mt19937 random(std::random_device{}());
  const int count = 1 + int(random() % 200);
  std::vector<int> done;
  Gate gate;
  BackgroundWork work;
  EXPECT_TRUE(work.is_done());
  work.wait();
  work.add(gate.work(), 1, kNoLimit);
  for (int i = 0; i < count; ++i) work.add([&done, i] { done.push_back(i); }, i, kNoLimit);
  EXPECT_TRUE(done.empty());
  EXPECT_FALSE(work.is_done());
  gate.open();
  work.wait();
  EXPECT_TRUE(work.is_done());
  ASSERT_EQ(done.size(), std::size_t(count));
  EXPECT_TRUE(std::ranges::is_sorted(done));
}

// A piece is added when there is room for it, so what it holds is made before: one more.
TEST(BackgroundWork, HoldsNoMoreThanItMay) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::int64_t limit = 1 + random() % 1000;
  const std::int64_t largest = 2 * limit;
  Held held;
  BackgroundWork work;
  for (int i = 0; i < 300; ++i) {
    const std::int64_t bytes = std::int64_t(random() % std::uint64_t(largest + 1));
    work.add([bytes_held = held.bytes(bytes)] {}, bytes, limit);
    // A piece without bytes does not wait, whatever is held.
    if (bytes > 0) {
      EXPECT_LE(held.now(), std::max(limit, bytes));
    }
  }
  work.wait();
  EXPECT_EQ(held.now(), 0);
  EXPECT_LE(held.most(), limit + 2 * largest);
}

TEST(BackgroundWork, WaitsForRoomUntilThereIsSome) {
  Gate gate;
  std::atomic<bool> is_added = false;
  BackgroundWork work;
  work.add(gate.work(), 10, 10);
  std::future<void> adding = std::async(std::launch::async, [&] {
    work.add([] {}, 1, 10);
    is_added = true;
  });
  work.add([] {}, 0, 0);  // of nothing there may always be more
  EXPECT_FALSE(is_added);
  gate.open();
  adding.get();
  work.wait();
}

TEST(BackgroundWork, EndsWithTheFirstFailure) {
  std::mt19937 random(std::random_device{}());
  for (const bool by_waiting : {true, false}) {
    const int good = int(random() % 5), after = 1 + int(random() % 5);
    int done = 0;
    Held held;
    Gate gate;
    BackgroundWork work;
    work.add(gate.work(), 0, kNoLimit);
    for (int i = 0; i < good; ++i) work.add([&] { ++done; }, 1, kNoLimit);
    work.add([] { throw std::runtime_error("the disk is full"); }, 1, kNoLimit);
    for (int i = 0; i < after; ++i) work.add([&, bytes = held.bytes(1)] { ++done; }, 1, kNoLimit);
    gate.open();
    if (!by_waiting) {
      while (!work.is_done()) std::this_thread::yield();
      EXPECT_THROW(work.add([&] { ++done; }, 1, kNoLimit), std::runtime_error);
    } else {
      try {
        work.wait();
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), std::string("the disk is full"));
      }
    }
    EXPECT_EQ(done, good);
    EXPECT_EQ(held.now(), 0);
    work.wait();  // it has been told
    work.add([&] { ++done; }, 1, 1);
    work.wait();
    EXPECT_EQ(done, good + 1);
  }
}

TEST(BackgroundWork, IsFinishedBeforeItGoes) {
  for (const bool fails : {false, true}) {
    int done = 0;
    {
      Gate gate;
      BackgroundWork work;
      work.add(gate.work(), 0, kNoLimit);
      for (int i = 0; i < 10; ++i)
        work.add(
            [&] {
              ++done;
              if (fails && done == 5) throw std::runtime_error("told to nobody");
            },
            1, kNoLimit);
      gate.open();
    }
    EXPECT_EQ(done, fails ? 5 : 10);
  }
}

}  // namespace
}  // namespace norn
