// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/pooling.h"

/// Means of windows: PoolingKernels' forward() and backward() of one source.
namespace norn::cuda {

/// y = the mean of each window, or y += it.
void pool_means(const Stream& stream, const PoolingSource& source, const GivenDelta& to);
void spread_means(const Stream& stream, const PoolingSource& source, const DenseOperand& delta,
                  const GivenDelta& to);

}  // namespace norn::cuda
