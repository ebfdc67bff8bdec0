// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "norn/tensor/views.h"

/// Transposed matrices: tensor cores read float32 operands only along k.
namespace norn::cuda {

/// to(c, r) = from(r, c); columns of `to` beyond the rows of `from` become zero.
///   from [R x C],  to [C x at least R]
void transpose(const Stream& stream, MatrixView<const float> from, MatrixView<float> to);

}  // namespace norn::cuda
