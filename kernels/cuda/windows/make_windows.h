// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"

#include <memory>

namespace norn {
class ConvolutionKernels;
class DenseKernels;
class PoolingKernels;
}  // namespace norn

/// The families of windows, as families.h declares the others.
namespace norn::cuda {

/// Its products are those of `dense`, which must outlive it.
std::unique_ptr<ConvolutionKernels> make_convolution(const Stream& stream, DenseKernels& dense);
std::unique_ptr<PoolingKernels> make_pooling(const Stream& stream);

}  // namespace norn::cuda
