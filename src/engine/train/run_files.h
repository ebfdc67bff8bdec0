// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/background_work.h"
#include "src/engine/model/model_file.h"

#include <chrono>

namespace norn {

/// The files of a run that goes on: checkpoints and its best model. They are written beside
/// computing, one after the other, from copies of what they hold; and, but where it is asked for,
/// so seldom that they take little of the time. All ranks call save() and wait() together.
class RunFiles {
 public:
  /// At least so many seconds pass between two files that nobody has asked for; 0: none need to.
  RunFiles(Network& network, double least_seconds);

  /// The network of now, at `state`, becomes the file. It is there when wait() returns.
  void save(const std::filesystem::path& path, const TrainingState& state);
  /// Done on rank 0 after the files that were saved before, if all went well.
  void then(std::function<void()> work);
  /// Whether there is something to wait for.
  bool is_writing() const { return is_writing_; }
  /// Whether wait() would return at once, on this rank.
  bool is_written() const { return writer_.is_done(); }
  /// Throws what has gone wrong in writing, on the rank that writes.
  void wait();
  /// By this rank's clock: whether files that are written now take at most a twentieth of the time.
  bool is_due() const;

 private:
  using Clock = std::chrono::steady_clock;
  Network& network_;
  double least_seconds_;
  double cost_;  // seconds that the last files took, or that the first ones may take
  Clock::time_point begun_ = Clock::now();
  Clock::time_point done_ = begun_;  // set by the writing thread
  bool is_writing_ = false;
  BackgroundWork writer_;  // goes first, since it uses the others
};

}  // namespace norn
