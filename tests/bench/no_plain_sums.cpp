// SPDX-License-Identifier: Apache-2.0
// Plain sums in a build without CUDA: there are none.
#include "norn/base/error.h"
#include "tests/bench/plain_sums.h"

namespace norn::bench {

std::unique_ptr<FixedKernels> make_plain_sums(const Kernels&, Memory&) {
  throw UsageError("--plain-sums is for GPUs, and this program was built without CUDA");
}

}  // namespace norn::bench
