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

/// What output_delta keeps between its kernels.
struct OutputScratch {
  explicit OutputScratch(Memory& memory)
      : tile_cost(memory), tile_gradient(memory), target_offset(memory) {}
  Scratch<double> tile_cost;
  Scratch<float> tile_gradient;
  Scratch<int> target_offset;
};

/// FusedKernels::output_delta in bfloat16.
bool output_delta_bfloat16(const Stream& stream, OutputScratch& scratch, const OutputBlock& block);
/// FusedKernels::output_delta in tf32.
bool output_delta_float(const Stream& stream, OutputScratch& scratch, const OutputBlock& block);

}  // namespace norn::cuda
