// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

/// Everything that the library throws. Only main() catches, prints one line and returns
/// exit_code().
namespace norn {

/// Exit codes of the programs.
enum class ExitCode {
  done = 0,
  unforeseen = 1,
  usage = 2,          ///< command line or network descriptor
  data = 3,           ///< a data, model or index file
  device = 4,         ///< device or memory
  communication = 5,  ///< another rank is gone or late
  divergence = 6,     ///< the numbers stopped being numbers
  stopped = 75        ///< stopped by a signal after a checkpoint: run again with --resume
};

/// Base of all errors. The message says what, where, the value, what was expected and the next
/// step, in one line.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::unforeseen)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }
  int exit_code() const { return static_cast<int>(code_); }

 private:
  ExitCode code_;
};

/// A wrong command line or network descriptor.
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message) : Error(message, ExitCode::usage) {}
};

/// A wrong, missing, truncated or unwritable data, model or index file.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(message, ExitCode::data) {}
};

/// A device that failed, or memory that does not suffice.
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(message, ExitCode::device) {}
};

/// A collective operation that failed or took too long.
class CommunicationError : public Error {
 public:
  explicit CommunicationError(const std::string& message)
      : Error(message, ExitCode::communication) {}
};

/// Another rank failed: it has said why, and ends all with its exit code.
class RunEnded : public Error {
 public:
  using Error::Error;
};

/// Losses or weights that are no longer finite.
class DivergenceError : public Error {
 public:
  explicit DivergenceError(const std::string& message) : Error(message, ExitCode::divergence) {}
};

/// A caller's mistake: shapes that do not fit, an argument out of range.
class ShapeError : public Error {
 public:
  explicit ShapeError(const std::string& message) : Error(message) {}
};

/// Throws ShapeError(message) unless the condition holds. Stays on in release builds.
inline void require(bool condition, const char* message) {
  if (!condition) throw ShapeError(message);
}

}  // namespace norn
