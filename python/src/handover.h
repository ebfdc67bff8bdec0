// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace norn::python {

/// From a thread that works to the one that waits for it, which alone may call Python: the worker
/// asks for a call and waits until it has been made.
class Handover {
 public:
  /// Of the worker. `call` must not throw.
  void ask(const std::function<void()>& call) {
    std::unique_lock lock(mutex_);
    asked_ = &call;
    changed_.notify_all();
    changed_.wait(lock, [&] { return asked_ == nullptr; });
  }
  /// Of the worker: it is done.
  void finish() {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }
  /// Of the one that waits: returns what is asked for, or null after that time or at the end.
  const std::function<void()>* wait(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most, [&] { return asked_ != nullptr || finished_; });
    return asked_;
  }
  /// Of the one that waits: the call has been made.
  void answered() {
    const std::lock_guard lock(mutex_);
    asked_ = nullptr;
    changed_.notify_all();
  }
  bool finished() {
    const std::lock_guard lock(mutex_);
    return finished_ && asked_ == nullptr;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* asked_ = nullptr;
  bool finished_ = false;
};

}  // namespace norn::python
