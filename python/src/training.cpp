// SPDX-License-Identifier: Apache-2.0
// Training: on a thread of its own, while the one that called waits, looks for Ctrl-C and calls
// Python.
#include "norn/base/error.h"
#include "python/src/handover.h"
#include "python/src/model.h"
#include "python/src/parts.h"
#include "python/src/reports.h"
#include "python/src/settings.h"

#include <atomic>
#include <csignal>
#include <exception>
#include <optional>
#include <thread>
#include <type_traits>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace norn::python {
namespace {

using Clock = std::chrono::steady_clock;

// A thread that leaves signals to Python's.
template <typename Work>
std::jthread start_without_signals(Work work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::jthread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

class TrainingCall {
 public:
  TrainingCall(const nb::dict& settings, nb::object callback, nb::list reports, double step_seconds,
               nb::object rate)
      : options_(train_options_of(settings)),
        callback_(std::move(callback)),
        reports_(std::move(reports)),
        rate_(std::move(rate)) {
    options_.log = log_->log();
    options_.stop = &stop_;
    observer_.on_begin = told<run::RunBeginning>("begin");
    if (step_seconds >= 0.0)
      observer_.on_step = [step_seconds, tell = told<StepReport>("step"),
                           last = Clock::time_point()](const StepReport& report) mutable {
        const Clock::time_point now = Clock::now();
        if (now - last < std::chrono::duration<double>(step_seconds)) return;
        last = now;
        tell(report);
      };
    observer_.on_epoch = told<EpochReport>("epoch");
    observer_.on_validation = told<ValidationReport>("validation");
    observer_.on_checkpoint = [this](const CheckpointReport& report) {
      ask([&] {
        if (!raised_) callback_("checkpoint", report.path);
      });
    };
    if (!rate_.is_none())
      observer_.on_rate = [this](std::int64_t epoch, double value) {
        ask([&] { value = nb::cast<double>(rate_(epoch, value)); });
        return value;
      };
  }

  nb::tuple run() {
    std::optional<run::TrainResult> result;
    std::exception_ptr failure;
    {
      const auto work = [&] {
        try {
          result = run::train(options_, observer_);
        } catch (...) {
          failure = std::current_exception();
        }
        handover_.finish();
      };
      std::jthread worker = start_without_signals(work);
      wait();
      const nb::gil_scoped_release release;
      worker.join();
    }
    try_python([&] { log_->drain(); });
    if (failure) {
      if (raised_) throw nb::python_error(std::move(*raised_));
      std::rethrow_exception(failure);
    }
    return outcome(*result);
  }

 private:
  // With the GIL: keeps the first exception, and stops the run for it.
  template <typename Call>
  void try_python(const Call& call) {
    try {
      call();
    } catch (nb::python_error& error) {
      if (!raised_) raised_.emplace(std::move(error));
      stop_ = true;
    } catch (const nb::cast_error&) {
      if (!raised_) {
        PyErr_SetString(PyExc_TypeError, "a callback returned what is no number");
        raised_.emplace();
      }
      stop_ = true;
    }
  }

  // Of the worker.
  template <typename Call>
  void ask(const Call& call) {
    handover_.ask([&] { try_python(call); });
  }

  template <typename Report>
  std::function<void(const Report&)> told(const char* what) {
    return [this, what](const Report& report) {
      ask([&] {
        nb::dict all = dictionary_of(report);
        if (!std::is_same_v<Report, StepReport>) reports_.append(nb::make_tuple(what, all));
        if (raised_) return;
        log_->drain();
        callback_(what, all);
      });
    };
  }

  void wait() {
    while (!handover_.finished()) {
      const std::function<void()>* asked = nullptr;
      {
        const nb::gil_scoped_release release;
        asked = handover_.wait(std::chrono::milliseconds(20));
      }
      try_python([&] {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        log_->drain();
      });
      if (!asked) continue;
      (*asked)();
      handover_.answered();
    }
  }

  nb::tuple outcome(run::TrainResult& result) {
    nb::dict facts;
    facts["end"] = result.end == TrainingEnd::completed       ? "completed"
                   : result.end == TrainingEnd::early_stopped ? "early_stopped"
                                                              : "stopped";
    facts["step"] = result.step;
    facts["epoch"] = result.epoch;
    facts["watched"] = result.watched;
    facts["best"] = result.best;
    facts["speed"] = result.speed;
    nb::object model = nb::none();
    if (result.model) model = nb::cast(std::make_unique<HeldModel>(std::move(result.model), log_));
    nb::object raised = nb::none();
    if (raised_) raised = nb::borrow(raised_->value());
    return nb::make_tuple(facts, model, raised);
  }

  std::atomic<bool> stop_{false};
  std::shared_ptr<LogQueue> log_ = std::make_shared<LogQueue>();
  run::TrainOptions options_;
  run::TrainObserver observer_;
  nb::object callback_;
  nb::list reports_;  // what has been told, also where a callback failed
  nb::object rate_;
  Handover handover_;
  std::optional<nb::python_error> raised_;  // by a callback, a handler of signals or of log records
};

}  // namespace

void add_training(nb::module_& m) {
  m.def(
      "train",
      [](const nb::dict& settings, nb::object callback, nb::list reports, double step_seconds,
         nb::object rate) {
        return TrainingCall(settings, std::move(callback), std::move(reports), step_seconds,
                            std::move(rate))
            .run();
      },
      "settings"_a, "callback"_a, "reports"_a, "step_seconds"_a = -1.0,
      "rate"_a.none() = nb::none(),
      "Trains; callback(kind, report) is called on this thread, of steps not more often than "
      "every\n"
      "step_seconds, if that is not negative, and rate(epoch, rate) gives the rates of epochs. "
      "What they raise stops the run. Returns facts, the model, and what was\n"
      "raised or None.");
}

}  // namespace norn::python
