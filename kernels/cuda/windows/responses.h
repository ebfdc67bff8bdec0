// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/pooling.h"

/// Local response normalisation: PoolingKernels' forward() and backward() of one source.
namespace norn::cuda {

/// y = each unit over its response, or y += it.
void normalise_responses(const Stream& stream, const LocalResponseNormalization& lrn,
                         const PoolingSource& source, const GivenDelta& to);
void normalise_responses_backward(const Stream& stream, const LocalResponseNormalization& lrn,
                                  const PoolingSource& source, const DenseOperand& delta,
                                  const GivenDelta& to);

}  // namespace norn::cuda
