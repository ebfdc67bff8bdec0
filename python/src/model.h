// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/run/model.h"
#include "python/src/log_queue.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace norn::python {

/// A model that Python holds: one thread uses it at a time, without the GIL, and the process alone
/// that made it, since its threads are of that.
class HeldModel {
 public:
  HeldModel(std::unique_ptr<run::Model> model, std::shared_ptr<LogQueue> log)
      : model_(std::move(model)), log_(std::move(log)), process_(::getpid()) {}
  ~HeldModel() { close(); }
  HeldModel(const HeldModel&) = delete;
  HeldModel& operator=(const HeldModel&) = delete;

  /// use(model) without the GIL, while no other thread uses it. Messages go to Python after it.
  template <typename Use>
  auto with(const Use& use) {
    require_process();
    struct Told {
      std::shared_ptr<LogQueue> log;
      ~Told() noexcept(false) {
        if (std::uncaught_exceptions() == 0) log->drain();
      }
    } const told{log_};
    const nanobind::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    require_open();
    return use(*model_);
  }
  /// Gives its memory back. Calls after it raise UsageError.
  void close();
  bool is_closed() const { return model_ == nullptr; }

 private:
  void require_process() const;
  void require_open() const;

  std::unique_ptr<run::Model> model_;
  std::shared_ptr<LogQueue> log_;
  ::pid_t process_;
  std::mutex mutex_;
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
