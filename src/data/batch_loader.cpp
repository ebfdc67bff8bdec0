// SPDX-License-Identifier: Apache-2.0
// Batches prefetched by one background thread.

#include "src/data/batch_loader.h"

#include "dataset_items.h"
#include "norn/base/error.h"
#include "src/data/prefetched.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace norn {

struct BatchLoader::State {
  std::vector<BatchSource> sets;
  BatchOrder order;
  Index epoch;
  Index number;
  Index last_epoch;
  BatchChange change;
  std::vector<Index> examples = {};  // of the epoch, in its order
  Prefetched<LoadedBatch> batches;   // last: its thread uses all of this

  State(std::vector<BatchSource> all, const BatchOrder& each, Index first_epoch, Index first_batch,
        Index end, int depth, BatchChange what)
      : sets(std::move(all)),
        order(each),
        epoch(first_epoch),
        number(first_batch),
        last_epoch(end),
        change(std::move(what)),
        batches(depth + 1, [this](LoadedBatch& batch) { return read(batch); }) {}

  bool read(LoadedBatch& batch) {
    if (number == order.batches()) {
      ++epoch;
      number = 0;
    }
    if (epoch >= last_epoch) return false;
    if (examples.empty() || number == 0) examples = order.epoch(epoch);
    batch.epoch = epoch;
    batch.number = number;
    batch.sets.resize(sets.size());
    const Index first = number * order.batch();
    const Index count = std::min(order.batch(), order.examples() - first);
    const std::span<const Index> chosen{examples.data() + first, std::size_t(count)};
    batch.example.assign(chosen.begin(), chosen.end());
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const Range part = sets[i].read ? sets[i].read(count) : Range{0, count};
      const auto own = chosen.begin() + part.begin;
      sets[i].set->gather({own, own + part.count()}, batch.sets[i]);
      batch.sets[i].first = part.begin;
    }
    if (change) change(batch);
    ++number;
    return true;
  }
};

BatchLoader::BatchLoader(std::vector<BatchSource> sets, const BatchOrder& order, Index first_epoch,
                         Index first_batch, Index last_epoch, int depth, BatchChange change) {
  require(!sets.empty(), "BatchLoader: at least one data set");
  require(depth >= 1, "BatchLoader: a depth of at least 1");
  require(first_epoch >= 0 && first_batch >= 0 && first_batch <= order.batches(),
          "BatchLoader: a start within the epoch");
  for (const auto& [set, read] : sets) {
    if (set->info().examples != order.examples()) {
      throw DataError(
          fmt::format("{} has {} examples where {} are expected; every data set of a network "
                      "needs the same examples, import them together",
                      place(set->info()), set->info().examples, order.examples()));
    }
  }
  // `depth` batches wait or are being read while the caller holds one.
  state_ = std::make_unique<State>(std::move(sets), order, first_epoch, first_batch, last_epoch,
                                   depth, std::move(change));
}

BatchLoader::~BatchLoader() = default;

const LoadedBatch* BatchLoader::next() {
  return state_->batches.next();
}

}  // namespace norn
