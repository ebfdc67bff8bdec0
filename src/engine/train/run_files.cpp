// SPDX-License-Identifier: Apache-2.0
// When files are written while a run goes on, and how.
#include "src/engine/train/run_files.h"

#include "src/engine/network/state_copy.h"

#include <algorithm>

namespace norn {
namespace {

// Of a run's time, at most one part in so many goes to files that nobody asked for.
constexpr double kPartsOfTime = 20.0;
// What a disk that is not fast takes; how fast this one is the first file shows.
constexpr double kBytesPerSecond = 5e8;

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

RunFiles::RunFiles(Network& network, double least_seconds)
    : network_(network),
      least_seconds_(least_seconds),
      cost_(double(state_bytes(network) * network.context().communicator.size()) /
            kBytesPerSecond) {}

void RunFiles::save(const std::filesystem::path& path, const TrainingState& state) {
  if (!is_writing_) begun_ = Clock::now();
  is_writing_ = true;
  save_model(path, network_, state, writer_, available_memory_bytes(1) / kPartsOfMemory);
  then([this] { done_ = Clock::now(); });
}

void RunFiles::then(std::function<void()> work) {
  if (network_.context().communicator.rank() == 0) writer_.add(std::move(work), 0, 0);
}

void RunFiles::wait() {
  if (!is_writing_) return;
  writer_.wait();
  network_.context().communicator.barrier();
  is_writing_ = false;
  cost_ = seconds(done_ - begun_);
}

bool RunFiles::is_due() const {
  return least_seconds_ <= 0.0 ||
         (!is_writing_ &&
          seconds(Clock::now() - done_) >= std::max(least_seconds_, kPartsOfTime * cost_));
}

}  // namespace norn
