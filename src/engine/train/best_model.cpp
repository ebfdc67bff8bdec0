// SPDX-License-Identifier: Apache-2.0
#include "src/engine/train/best_model.h"

namespace norn {

BestModel::BestModel(Network& network, const CheckpointPolicy& policy, RunFiles& files)
    : network_(network), policy_(policy), files_(files) {}

void BestModel::keep(const TrainingState& state) {
  Communicator& ranks = network_.context().communicator;
  // One rank's clock decides for all, and each rank has its own memory.
  const bool is_due = !policy_.as_time_allows && files_.is_due();
  const bool writes = ranks.any((ranks.rank() == 0 && is_due) || !has_copy());
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

void BestModel::save(const TrainingState& state) {
  files_.save(best_model(policy_.model), state);
  unwritten_.reset();
}

}  // namespace norn
