// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/thread.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace norn {

/// Things that a thread makes before they are asked for. A few of them go round: from the thread to
/// the caller, and back to be filled again.
template <typename T>
class Prefetched {
 public:
  /// `fill` is called on the thread with each thing in turn, and returns false when there are no
  /// more. Of `count` things one is the caller's. Throws DeviceError when there is no thread.
  Prefetched(int count, std::function<bool(T&)> fill) : fill_(std::move(fill)) {
    for (int i = 0; i < count; ++i) free_.push_back(std::make_unique<T>());
    thread_ = start_thread([this] { run(); });
  }
  ~Prefetched() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Prefetched(const Prefetched&) = delete;
  Prefetched& operator=(const Prefetched&) = delete;

  /// The next one, the caller's until the next call; null after the last. What `fill` threw is
  /// thrown here.
  const T* next() {
    std::unique_lock lock(mutex_);
    if (current_) {
      free_.push_back(std::move(current_));
      changed_.notify_all();
    }
    changed_.wait(lock, [this] { return !ready_.empty() || finished_; });
    if (ready_.empty() && error_) std::rethrow_exception(error_);
    if (ready_.empty()) return nullptr;
    current_ = std::move(ready_.front());
    ready_.pop_front();
    return current_.get();
  }

 private:
  void run() {
    std::exception_ptr problem;
    try {
      while (std::unique_ptr<T> thing = take_free()) {
        if (!fill_(*thing)) break;
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(thing));
        changed_.notify_all();
      }
    } catch (...) {
      problem = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = std::move(problem);
    finished_ = true;
    changed_.notify_all();
  }

  // Null when the thread is to stop.
  std::unique_ptr<T> take_free() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !free_.empty(); });
    if (stopping_) return nullptr;
    std::unique_ptr<T> thing = std::move(free_.front());
    free_.pop_front();
    return thing;
  }

  std::function<bool(T&)> fill_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<T>> free_;
  std::deque<std::unique_ptr<T>> ready_;
  std::unique_ptr<T> current_;
  std::exception_ptr error_;
  bool finished_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace norn
