// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/nn/connection.h"
#include "norn/parallel/communicator.h"

#include <memory>

namespace norn {

/// What a run computes with, passed to everything that needs it. Nothing is global.
struct Context {
  Compute compute;
  Communicator& communicator;
  Log log;
};

/// Owns what a Context points to, for one rank on the CPU.
class CpuRuntime {
 public:
  /// `threads` 0: one a core that this process may use.
  explicit CpuRuntime(int threads = 0)
      : executor_(threads), kernels_(make_cpu_kernels(executor_)) {}
  Context context(Communicator& communicator, Log log = {}) {
    return {Compute{executor_, kernels_, host_memory()}, communicator, std::move(log)};
  }

 private:
  Executor executor_;
  Kernels kernels_;
};

}  // namespace norn
