// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>

/// Messages from the library to whoever runs it. The library itself never prints.
namespace norn {

enum class LogLevel { debug, info, warning };

/// Passes messages to a sink that the program chooses; without one they are dropped.
class Log {
 public:
  using Sink = std::function<void(LogLevel, const std::string&)>;
  Log() = default;
  explicit Log(Sink sink) : sink_(std::move(sink)) {}
  void debug(const std::string& message) const { write(LogLevel::debug, message); }
  void info(const std::string& message) const { write(LogLevel::info, message); }
  void warning(const std::string& message) const { write(LogLevel::warning, message); }

 private:
  void write(LogLevel level, const std::string& message) const {
    if (sink_) sink_(level, message);
  }
  Sink sink_;
};

}  // namespace norn
