// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace norn {

/// Work that a thread does, piece by piece in the order given, beside what its owner does.
class BackgroundWork {
 public:
  BackgroundWork() = default;
  /// Waits until all is done that was given.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  /// `work` holds so many bytes until it is done. Where what is left to do would hold more than
  /// `limit` bytes this waits; a piece of any size is taken when nothing is left. Throws what an
  /// earlier piece threw, and DeviceError when there is no thread.
  void add(std::function<void()> work, std::int64_t bytes, std::int64_t limit);
  /// Whether nothing is left to do; then wait() does not wait.
  bool is_done() const;
  /// Until nothing is left to do. Throws, once, what a piece threw: those after it were not done.
  void wait();

 private:
  struct Piece {
    std::function<void()> work;
    std::int64_t bytes = 0;
  };
  void run();
  void throw_problem();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_;  // the first one is being done
  std::int64_t bytes_ = 0;    // that they hold
  std::exception_ptr problem_;
  bool ends_ = false;
  std::thread thread_;  // from the first piece on
};

}  // namespace norn
