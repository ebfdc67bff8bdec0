// SPDX-License-Identifier: Apache-2.0
#include "src/engine/best_model.h"

#include <algorithm>

namespace norn {
namespace {

// Of a run's time, at most one part in so many goes to writing its best model.
constexpr double kPartsOfTime = 20.0;
// Of the main memory that is available, the copies of all ranks take at most one part in so many.
constexpr std::int64_t kPartsOfMemory = 4;

}  // namespace

BestModel::BestModel(Network& network, const CheckpointPolicy& policy)
    : network_(network), policy_(policy) {}

void BestModel::keep(const TrainingState& state) {
  Communicator& ranks = network_.context().communicator;
  // One rank's clock decides for all, and each rank has its own memory.
  const bool writes = ranks.any((ranks.rank() == 0 && is_due()) || !has_room());
  if (writes) {
    save(state);
    return;
  }
  if (!copy_) copy_ = std::make_unique<StateCopy>(network_, host_memory());
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

// Ranks that share a machine see the same memory.
bool BestModel::has_room() {
  if (copy_) return true;
  const std::int64_t ranks = network_.context().communicator.size();
  no_room_ = no_room_ || state_bytes(network_) * ranks > available_memory_bytes(1) / kPartsOfMemory;
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
