// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/stream.h"
#include "norn/kernels/fused.h"

/// The fused products of compute capability 9.0, one function each. All return false, having done
/// nothing, for what they do not support.
namespace norn::cuda {

/// FusedKernels::update in bfloat16.
bool update_bfloat16(const Stream& stream, const UpdateRule& rule, const UpdateStep& step,
                     MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x, float scale,
                     MatrixView<float> w, std::array<MatrixView<float>, 2> slot,
                     MatrixView<Bfloat16> rounded);

/// FusedKernels::output_delta in bfloat16.
bool output_delta_bfloat16(const Stream& stream, Scratch<double>& tile_cost,
                           Scratch<RowOffset>& target_range, const OutputBlock& block);

}  // namespace norn::cuda
