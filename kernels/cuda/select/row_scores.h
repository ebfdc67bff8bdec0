// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "norn/tensor/views.h"
#include "src/base/bfloat16.h"

/// The scores that TopKProduct compares, written.
namespace norn::cuda {

/// Whether write_row_scores() takes such operands on the current device: as TopKProduct::fits().
bool fits_row_scores(MatrixView<const Bfloat16> x, MatrixView<const Bfloat16> w);

/// z = x * w^T + bias, with the bits that TopKProduct finds the best of: what an element gets
/// depends on its own row of x and of w alone.
///   x [B x width],  w [units x width],  bias [units],  z [B x units]
void write_row_scores(const Stream& stream, MatrixView<const Bfloat16> x,
                      MatrixView<const Bfloat16> w, VectorView<const float> bias,
                      MatrixView<float> z);

}  // namespace norn::cuda
