// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/model.h"
#include "python/src/log_queue.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace norn::python {

/// A model that Python holds: one thread uses it at a time, without the GIL. A forked child goes on
/// with its own copy of it, but for what cannot be copied so, and leaves its end to its parent.
class HeldModel {
 public:
  HeldModel(std::unique_ptr<run::Model> model, std::shared_ptr<LogQueue> log)
      : model_(std::move(model)), log_(std::move(log)) {}
  ~HeldModel() { close(); }
  HeldModel(const HeldModel&) = delete;
  HeldModel& operator=(const HeldModel&) = delete;

  /// use(model) without the GIL, while no other thread uses it. Messages go to Python after it.
  template <typename Use>
  auto with(const Use& use) {
    come_to_this_process();
    struct Told {
      std::shared_ptr<LogQueue> log;
      ~Told() noexcept(false) {
        if (std::uncaught_exceptions() == 0) log->drain();
      }
    } const told{log_};
    const nanobind::gil_scoped_release release;
    const std::lock_guard lock(*mutex_);
    require_open();
    in_use_ = true;
    struct Used {
      std::atomic<bool>& now;
      ~Used() { now = false; }
    } const used{in_use_};
    return use(*model_);
  }
  /// Gives its memory back. Calls after it raise UsageError.
  void close();
  bool is_closed() const { return model_ == nullptr; }

 private:
  void come_to_this_process();
  void require_open() const;

  std::unique_ptr<run::Model> model_;
  std::shared_ptr<LogQueue> log_;
  const ::pid_t made_in_ = ::getpid();
  ::pid_t process_ = made_in_;  // that uses it
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::atomic<bool> in_use_ = false;
};

/// Looks for signals now and then, such as Ctrl-C, on the calling thread of a long call that does
/// not hold the GIL; throws what their handlers raise.
class SignalCheck {
 public:
  void operator()();

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace norn::python
