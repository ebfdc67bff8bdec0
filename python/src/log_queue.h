// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace norn::python {

/// Messages of the engine's threads on their way to logging.getLogger("norn"): the thread that
/// called into the engine hands them over, since it alone may call Python.
class LogQueue : public std::enable_shared_from_this<LogQueue> {
 public:
  /// A log that writes into the queue, and keeps it.
  Log log();
  /// Hands over what has come. With the GIL; throws what a handler of Python's raises.
  void drain();

 private:
  std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> messages_;
};

}  // namespace norn::python
