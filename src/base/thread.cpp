// SPDX-License-Identifier: Apache-2.0
// Threads that may be refused.

#include "src/base/thread.h"

#include "norn/base/error.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace norn {

std::thread start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& problem) {
    throw DeviceError(
        fmt::format("a thread could not be started: {}; end other programs, or raise the limit of "
                    "processes (ulimit -u, or the job's)",
                    problem.code().message()));
  }
}

}  // namespace norn
