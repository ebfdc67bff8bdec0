// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "tools/common/console.h"

#include <chrono>
#include <string>

/// How far a long piece of work has come, how fast it goes and how long it will take.
namespace norn::tools {

/// On a terminal one line with a bar, redrawn at most ten times a second; elsewhere a plain line
/// after half a minute without one, so that a log stays short.
class Progress {
 public:
  /// `total` items of work; 0: not known beforehand. `items` names them: "examples".
  Progress(Console& console, Index total, std::string items);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the items are done; `detail` is shown before the rate.
  void update(Index done, const std::string& detail = {});
  /// The same where another line has told it, after which a log needs none.
  void reached(Index done);
  /// How long the rest will take, "1 min 20 s"; empty where that is not known.
  std::string left() const;
  /// Items a second since the beginning.
  double rate() const;
  double seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(const std::string& detail) const;
  Console& console_;
  Index total_;
  std::string items_;
  Index done_ = 0;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_ = start_;
};

}  // namespace norn::tools
