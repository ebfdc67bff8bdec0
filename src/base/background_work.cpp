// SPDX-License-Identifier: Apache-2.0
// A queue of work with a thread.
#include "src/base/background_work.h"

#include "src/base/thread.h"

#include <utility>

namespace norn {

BackgroundWork::~BackgroundWork() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundWork::add(std::function<void()> work, std::int64_t bytes, std::int64_t limit) {
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
  changed_.wait(lock, [&] { return pieces_.empty() || bytes == 0 || bytes_ + bytes <= limit; });
  throw_problem();
  pieces_.push_back({std::move(work), bytes});
  bytes_ += bytes;
  changed_.notify_all();
}

bool BackgroundWork::is_done() const {
  const std::lock_guard lock(mutex_);
  return pieces_.empty();
}

void BackgroundWork::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pieces_.empty(); });
  throw_problem();
}

void BackgroundWork::throw_problem() {
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

void BackgroundWork::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !pieces_.empty(); });
    if (pieces_.empty()) return;
    std::function<void()> work = std::move(pieces_.front().work);
    lock.unlock();
    std::exception_ptr problem;
    try {
      work();
    } catch (...) {
      problem = std::current_exception();
    }
    work = nullptr;  // what it holds goes before its bytes are counted as free
    lock.lock();
    bytes_ -= pieces_.front().bytes;
    pieces_.pop_front();
    if (problem) {
      problem_ = std::move(problem);
      for (const Piece& dropped : std::exchange(pieces_, {})) bytes_ -= dropped.bytes;
    }
    changed_.notify_all();
  }
}

}  // namespace norn
