// SPDX-License-Identifier: Apache-2.0
// Batches prefetched by one background thread.

#include "src/data/batch_loader.h"

#include "dataset_items.h"
#include "norn/base/error.h"
#include "src/base/thread.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace norn {

/// Batches travel from `free` through the reading thread to `ready`, to the caller as `current`,
/// and back.
struct BatchLoader::State {
  std::vector<Dataset*> sets;
  BatchOrder order;
  Index epoch;
  Index number;
  Index last_epoch;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::unique_ptr<LoadedBatch>> free;
  std::deque<std::unique_ptr<LoadedBatch>> ready;
  std::unique_ptr<LoadedBatch> current;
  std::exception_ptr error;
  bool finished = false;
  bool stopping = false;
  std::thread thread;

  State(std::vector<Dataset*> all, const BatchOrder& batches)
      : sets(std::move(all)), order(batches) {}

  void read_all() {
    try {
      for (; epoch < last_epoch; ++epoch, number = 0) {
        const std::vector<Index> examples = order.epoch(epoch);
        for (; number < order.batches(); ++number) {
          if (!read_one(examples)) return;
        }
      }
      finish(nullptr);
    } catch (...) {
      finish(std::current_exception());
    }
  }

  bool read_one(const std::vector<Index>& examples) {
    std::unique_ptr<LoadedBatch> batch;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return stopping || !free.empty(); });
      if (stopping) return false;
      batch = std::move(free.front());
      free.pop_front();
    }
    batch->epoch = epoch;
    batch->number = number;
    const Index first = number * order.batch();
    const Index count = std::min(order.batch(), order.examples() - first);
    const std::span<const Index> chosen{examples.data() + first, std::size_t(count)};
    for (std::size_t i = 0; i < sets.size(); ++i) sets[i]->gather(chosen, batch->sets[i]);
    const std::lock_guard lock(mutex);
    ready.push_back(std::move(batch));
    changed.notify_all();
    return true;
  }

  void finish(std::exception_ptr problem) {
    const std::lock_guard lock(mutex);
    error = std::move(problem);
    finished = true;
    changed.notify_all();
  }
};

BatchLoader::BatchLoader(std::vector<Dataset*> sets, const BatchOrder& order, Index first_epoch,
                         Index first_batch, Index last_epoch, int depth) {
  require(!sets.empty(), "BatchLoader: at least one data set");
  require(depth >= 1, "BatchLoader: a depth of at least 1");
  require(first_epoch >= 0 && first_batch >= 0 && first_batch <= order.batches(),
          "BatchLoader: a start within the epoch");
  for (const Dataset* set : sets) {
    if (set->info().examples != order.examples()) {
      throw DataError(
          fmt::format("{} has {} examples where {} are expected; every data set of a network "
                      "needs the same examples, import them together",
                      place(set->info()), set->info().examples, order.examples()));
    }
  }
  state_ = std::make_unique<State>(std::move(sets), order);
  state_->epoch = first_epoch;
  state_->number = first_batch;
  state_->last_epoch = last_epoch;
  // `depth` batches wait or are being read while the caller holds one.
  for (int i = 0; i < depth + 1; ++i) {
    state_->free.push_back(std::make_unique<LoadedBatch>());
    state_->free.back()->sets.resize(state_->sets.size());
  }
  state_->thread = start_thread([state = state_.get()] { state->read_all(); });
}

BatchLoader::~BatchLoader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

const LoadedBatch* BatchLoader::next() {
  std::unique_lock lock(state_->mutex);
  if (state_->current) {
    state_->free.push_back(std::move(state_->current));
    state_->changed.notify_all();
  }
  state_->changed.wait(lock, [this] { return !state_->ready.empty() || state_->finished; });
  if (!state_->ready.empty()) {
    state_->current = std::move(state_->ready.front());
    state_->ready.pop_front();
    return state_->current.get();
  }
  if (state_->error) std::rethrow_exception(state_->error);
  return nullptr;
}

}  // namespace norn
