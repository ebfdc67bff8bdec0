// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

/// What a program says while it works: to stderr, so that stdout holds results alone.
namespace norn::tools {

/// Writes results to stdout: ends of lines and tabs as they are, other control characters, which
/// names may hold, as \x1b and the like.
void print_results(std::string_view text);

/// Rank 0 says everything from `level` on; the other ranks say warnings only, marked `[rank 3]`.
/// A message is one line, whatever the names in it hold. Safe to use from several threads.
class Console {
 public:
  Console(const std::string& program, int rank, LogLevel level);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  int rank() const { return rank_; }
  /// For the library. The console must outlive it.
  Log log();
  /// For the program, whose ranks all say the same: rank 0 speaks.
  void info(const std::string& message);
  void warning(const std::string& message);

  /// True when progress is to be shown by rank 0: on a terminal as one line that changes, else as
  /// plain lines.
  bool shows_progress() const { return shows_progress_; }
  bool is_terminal() const { return is_terminal_; }
  /// Replaces the changing line of a terminal; empty removes it.
  void set_status(const std::string& line);

 private:
  void say(LogLevel level, const std::string& message);
  std::shared_ptr<spdlog::logger> logger_;
  int rank_;
  std::string prefix_;
  bool is_terminal_ = false;
  bool shows_progress_ = false;
  std::mutex mutex_;
  std::string status_;
};

}  // namespace norn::tools
