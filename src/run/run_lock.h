// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"

#include <filesystem>

/// Keeps two runs from writing the same files.
namespace norn::run {

/// Holds FILE.lock beside a file that a run writes, where a link leads to it, for as long as it
/// lives; then the lock file goes away. It is a lock of the file system (flock): that of a process
/// that was killed is free, whatever stands there.
class RunLock {
 public:
  /// Waits up to `patience` seconds, and says so, for a run that is ending. Throws UsageError
  /// naming the process that holds the lock. Where files cannot be locked it warns and holds
  /// nothing.
  RunLock(const std::filesystem::path& file, double patience, const Log& log);
  ~RunLock();
  RunLock(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace norn::run
