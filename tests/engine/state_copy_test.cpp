// SPDX-License-Identifier: Apache-2.0
// A copy of a network's state, in the network's memory and in main memory.
#include "src/engine/network/state_copy.h"

#include "tests/support/recipes.h"

#include <map>
#include <optional>

namespace norn::test {
namespace {

constexpr std::int64_t kSteps = 7;

/// What gather_state gave around a copy that was taken after `taken` steps.
struct States {
  std::vector<float> taken, last, exchanged, exchanged_twice, put_back;
};

States states_around(const Recipe& recipe, int ranks, bool in_main_memory) {
  std::optional<StateCopy> copy[4];  // of each rank
  States states;
  const auto after_step = [&](Network& network, std::int64_t made) {
    Communicator& communicator = network.context().communicator;
    std::optional<StateCopy>& mine = copy[communicator.rank()];
    Memory& own = network.context().compute.memory;
    const auto note = [&](std::vector<float> States::*of) {
      std::vector<float> state = gather_state(network);
      if (communicator.rank() == 0) states.*of = std::move(state);
    };
    if (made == kSteps / 2) {
      note(&States::taken);
      mine.emplace(network, in_main_memory ? host_memory() : own);
      mine->take();
    }
    if (made != kSteps) return;
    note(&States::last);
    mine->exchange();
    note(&States::exchanged);
    mine->exchange();
    note(&States::exchanged_twice);
    mine->put_back();
    note(&States::put_back);
    mine.reset();
  };
  run(recipe, kSteps, ranks, 1, after_step);
  return states;
}

TEST(StateCopy, ChangesPlacesWithTheNetwork) {
  const std::vector<Recipe> recipes = all_recipes();
  for (const Recipe& recipe : recipes)
    for (const int ranks : {1, 3})
      for (const bool in_main_memory : {true, false}) {
        SCOPED_TRACE(recipe.name + (in_main_memory ? ", in main memory" : ", in its own"));
        const States states = states_around(recipe, ranks, in_main_memory);
        ASSERT_FALSE(states.taken.empty());
        EXPECT_NE(states.taken, states.last);
        EXPECT_EQ(states.exchanged, states.taken);
        EXPECT_EQ(states.exchanged_twice, states.last);
        EXPECT_EQ(states.put_back, states.taken);
      }
}

// Main memory that sees what is copied beyond what it gave.
class WatchedMemory final : public Memory {
 public:
  void* allocate(std::size_t bytes) override {
    void* const data = host_memory().allocate(bytes);
    given_[static_cast<std::byte*>(data)] = bytes;
    return data;
  }
  void release(void* data, std::size_t bytes) noexcept override {
    given_.erase(static_cast<std::byte*>(data));
    host_memory().release(data, bytes);
  }
  void fill_zero(void* data, std::size_t bytes) override { host_memory().fill_zero(data, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override {
    beyond += !holds(to, bytes) || !holds(from, bytes);
    ++copies;
    Memory::copy(to, from, bytes);
  }

  int beyond = 0, copies = 0;

 private:
  bool holds(const void* data, std::size_t bytes) const {
    auto after = given_.upper_bound(static_cast<const std::byte*>(data));
    if (after == given_.begin()) return false;
    const auto& [begin, size] = *--after;
    return static_cast<const std::byte*>(data) + bytes <= begin + size;
  }
  std::map<const std::byte*, std::size_t> given_;
};

TEST(StateCopy, StaysWithinItsMemory) {
  WatchedMemory memory;
  run(all_recipes().front(), 1, 1, 1, [&](Network& network, std::int64_t) {
    StateCopy copy(network, memory);
    copy.take();
    copy.exchange();
    copy.put_back();
  });
  EXPECT_GT(memory.copies, 0);
  EXPECT_EQ(memory.beyond, 0);
}

}  // namespace
}  // namespace norn::test
