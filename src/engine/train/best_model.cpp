// SPDX-License-Identifier: Apache-2.0
#include "src/engine/train/best_model.h"

#include <algorithm>

namespace norn {
namespace {

// Of a run's time, at most one part in so many goes to writing its best model.
constexpr double kPartsOfTime = 20.0;
// Of the memory that is free, the copies of all ranks that share it take at most one part in so
// many.
constexpr std::int64_t kPartsOfMemory = 4;

}  // namespace

BestModel::BestModel(Network& network, const CheckpointPolicy& policy)
    : network_(network), policy_(policy) {}

void BestModel::keep(const TrainingState& state) {
  Communicator& ranks = network_.context().communicator;
  // One rank's clock decides for all, and each rank has its own memory.
  const bool writes = ranks.any((ranks.rank() == 0 && is_due()) || !has_copy());
  if (writes) {
    save(state);
    return;
  }
  copy_->take();
  unwritten_ = state;
}

void BestModel::write() {
  if (!unwritten_) return;
  const TrainingState state = *unwritten_;
  copy_->exchange();
  save(state);
  copy_->exchange();
}

bool BestModel::take(TrainingState& state) {
  if (!unwritten_) return false;
  copy_->put_back();
  state = *unwritten_;
  return true;
}

// Where it has one it stays. A copy within a GPU takes no time to speak of; ranks that share the
// GPU may all take the same room for free, and then there is none.
bool BestModel::has_copy() {
  if (copy_ || no_room_) return copy_ != nullptr;
  const std::int64_t bytes = kPartsOfMemory * state_bytes(network_);
  Memory& own = network_.context().compute.memory;
  const std::int64_t ranks = network_.context().communicator.size();
  try {
    if (bytes <= own.free_bytes()) copy_ = std::make_unique<StateCopy>(network_, own);
  } catch (const DeviceError&) {
    copy_.reset();
  }
  // Ranks that share a machine see the same memory.
  if (!copy_ && bytes * ranks <= available_memory_bytes(1))
    copy_ = std::make_unique<StateCopy>(network_, host_memory());
  no_room_ = !copy_;
  return !no_room_;
}

bool BestModel::is_due() const {
  if (policy_.best_seconds <= 0.0) return true;
  const double seconds = std::chrono::duration<double>(Clock::now() - written_).count();
  return seconds >= std::max(policy_.best_seconds, kPartsOfTime * seconds_to_write_);
}

void BestModel::save(const TrainingState& state) {
  const Clock::time_point start = Clock::now();
  save_model(best_model(policy_.model), network_, state);
  written_ = Clock::now();
  seconds_to_write_ = std::chrono::duration<double>(written_ - start).count();
  unwritten_.reset();
}

}  // namespace norn
