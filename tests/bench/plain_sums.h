// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kernels.h"

#include <memory>

/// What sums over blocks would cost without fixed point.
namespace norn::bench {

/// Sums in float32 in the order that the partial sums come, for one rank of a GPU: as fast as sums
/// can be, and other bits on every number of ranks. Accumulators hold floats then; formats and
/// maxima are left as they are. `kernels` are the GPU's. Throws UsageError on the CPU, or in a
/// build without CUDA.
std::unique_ptr<FixedKernels> make_plain_sums(const Kernels& kernels, Memory& memory);

}  // namespace norn::bench
