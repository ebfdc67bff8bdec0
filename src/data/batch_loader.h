// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"
#include "src/tensor/block_partition.h"

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

/// The order of examples, and prefetched batches.
namespace norn {

/// The order in which an epoch visits the examples: a function of (seed, epoch) only.
class BatchOrder {
 public:
  BatchOrder(Index examples, Index batch, bool shuffle, std::uint64_t seed);
  /// The permutation of an epoch; the identity without shuffling.
  std::vector<Index> epoch(Index epoch) const;
  Index examples() const { return examples_; }
  Index batch() const { return batch_; }
  /// Batches an epoch; the last one may be smaller.
  Index batches() const { return (examples_ + batch_ - 1) / batch_; }

 private:
  Index examples_;
  Index batch_;
  bool shuffle_;
  std::uint64_t seed_;
};

/// Of a step with so many examples, those that are read. Empty: all.
using ExamplesRead = std::function<Range(Index examples)>;

/// A data set, and what is read of it.
struct BatchSource {
  // NOLINTNEXTLINE(google-explicit-constructor): all of a set is what is usually read
  BatchSource(Dataset* all, ExamplesRead part = {}) : set(all), read(std::move(part)) {}
  Dataset* set;
  ExamplesRead read;
};

/// One step's examples from every data set.
struct LoadedBatch {
  Index epoch = 0;
  Index number = 0;             ///< within the epoch
  std::vector<Index> example;   ///< their numbers in the data sets
  std::vector<HostBatch> sets;  ///< in the order of the data sets given
};

/// What is done to a batch once it has been read.
using BatchChange = std::function<void(LoadedBatch&)>;

/// Prefetches batches on one background thread, which is the only one that touches the data sets
/// (and so NetCDF).
class BatchLoader {
 public:
  static constexpr int kUsualDepth = 2;
  /// Starts at batch `first_batch` of epoch `first_epoch` and goes on to the end of epoch
  /// `last_epoch` - 1. `change`, if any, is called on the thread.
  BatchLoader(std::vector<BatchSource> sets, const BatchOrder& order, Index first_epoch,
              Index first_batch, Index last_epoch, int depth = kUsualDepth,
              BatchChange change = {});
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  /// The next batch, or null after the last. The batch is the caller's until the next call. Errors
  /// of the reading thread are thrown here.
  const LoadedBatch* next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace norn
