// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/cuda/windows/given_delta.cuh"
#include "kernels/pooling.h"

/// Local response normalisation by threads that have packs of channels. They say whether they have
/// done it: else packs do not fit, or their neighbours are too far.
namespace norn::cuda {

bool normalise_packs(const Stream& stream, const LocalResponseNormalization& lrn,
                     const PoolingSource& source, const GivenDelta& to);
bool normalise_packs_backward(const Stream& stream, const LocalResponseNormalization& lrn,
                              const PoolingSource& source, const DenseOperand& delta,
                              const GivenDelta& to);

}  // namespace norn::cuda
