// SPDX-License-Identifier: Apache-2.0
// The GPU's kernels behind adapters, to be tested with the CPU's test text.
#include "tests/kernels/device.h"

#include "tests/kernels/staged/staged_dense.h"

namespace norn::samples {

std::unique_ptr<DenseKernels> make_dense(Executor&) {
  return std::make_unique<staged::StagedDense>();
}

bool sums_like_the_cpu() {
  return false;
}

}  // namespace norn::samples
