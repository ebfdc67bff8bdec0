// SPDX-License-Identifier: Apache-2.0
// Tests of the engine on the CPU.
#include "tests/support/test_runtime.h"

namespace norn::test {

std::unique_ptr<Runtime> make_test_runtime(int threads, int) {
  return std::make_unique<CpuRuntime>(threads);
}

double tolerance_factor() {
  return 1.0;
}

}  // namespace norn::test
