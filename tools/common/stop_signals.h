// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>

/// SIGUSR1, SIGTERM, SIGINT and SIGHUP as requests to stop in good order.
namespace norn::tools {

/// While it lives, those signals set a flag. A second SIGINT ends the process at once. SIGHUP,
/// which a closed terminal sends, stays ignored where it is, as under nohup. One object at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& requested() const;
  /// Throws Interrupted when a signal has come: for programs that have nothing to save.
  void throw_if_requested() const;
};

/// A program was told to stop: it cleans up, then ends as the signal would have ended it.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) : signal_(signal) {}
  int signal() const { return signal_; }
  const char* what() const noexcept override { return "stopped by a signal"; }

 private:
  int signal_;
};

}  // namespace norn::tools
