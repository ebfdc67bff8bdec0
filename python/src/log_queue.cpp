// SPDX-License-Identifier: Apache-2.0
#include "python/src/log_queue.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace norn::python {

Log LogQueue::log() {
  return Log([queue = shared_from_this()](LogLevel level, const std::string& message) {
    const std::lock_guard lock(queue->mutex_);
    queue->messages_.emplace_back(level, message);
  });
}

void LogQueue::drain() {
  std::vector<std::pair<LogLevel, std::string>> messages;
  {
    const std::lock_guard lock(mutex_);
    messages.swap(messages_);
  }
  if (messages.empty()) return;
  const nb::object logger = nb::module_::import_("logging").attr("getLogger")("norn");
  const nb::object in_python = nb::module_::import_("norn._door").attr("in_python");
  for (const auto& [level, message] : messages) {
    const char* const method = level == LogLevel::warning ? "warning"
                               : level == LogLevel::info  ? "info"
                                                          : "debug";
    logger.attr(method)("%s", in_python(message));
  }
}

}  // namespace norn::python
