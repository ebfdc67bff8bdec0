// SPDX-License-Identifier: Apache-2.0
// Stop signals: the handler only stores to lock-free atomics and restores a default.
#include "tools/common/stop_signals.h"

#include <array>
#include <csignal>

namespace norn::tools {
namespace {

constexpr std::array kSignals = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};

std::atomic<bool> stop_requested{false};
std::atomic<int> last_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  last_signal.store(number, std::memory_order_relaxed);
  stop_requested.store(true, std::memory_order_relaxed);
  if (number == SIGINT) std::signal(SIGINT, SIG_DFL);  // the second one ends the process
}

void install(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // reads and writes go on
  sigaction(number, &action, nullptr);
}

// By nohup, for what is to outlive its terminal.
bool is_to_stay_ignored(int number) {
  struct sigaction now {};
  return number == SIGHUP && sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

StopSignals::StopSignals() {
  stop_requested.store(false);
  for (int number : kSignals)
    if (!is_to_stay_ignored(number)) install(number, on_signal);
}

StopSignals::~StopSignals() {
  for (int number : kSignals)
    if (!is_to_stay_ignored(number)) install(number, SIG_DFL);
  // A request that comes when all is done must not turn the exit code into that of a crash.
  install(SIGUSR1, SIG_IGN);
}

const std::atomic<bool>& StopSignals::requested() const {
  return stop_requested;
}

void StopSignals::throw_if_requested() const {
  if (stop_requested.load(std::memory_order_relaxed)) throw Interrupted(last_signal.load());
}

}  // namespace norn::tools
