// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/pooling.h"

/// How alike two sources are: PoolingKernels' functions of the same names.
namespace norn::cuda {

void add_pair_sums(const Stream& stream, const PoolingSource& first, const PoolingSource& second,
                   const PairSums<FixedSum>& sums);
void compare(const Stream& stream, Similarity similarity, const PairSums<const FixedSum>& sums,
             MatrixView<float> y);
void compare_backward(const Stream& stream, Similarity similarity,
                      const PairSums<const FixedSum>& sums, MatrixView<const float> delta,
                      const PoolingSource& first, const PoolingSource& second, MatrixView<float> dx,
                      bool adds);

}  // namespace norn::cuda
