// SPDX-License-Identifier: Apache-2.0
// How a GPU wants its blocks, for builds without CUDA too: they plan runs on GPUs.
#include "kernels/cuda.h"

namespace norn {

// Blocks of a GPU are large enough to fill it, and small enough for their deltas to stay in the
// second-level cache. Their number is a multiple of 8, so that 2, 4 or 8 GPUs have equal parts.
// Hidden layers are narrow: their blocks are small, so that each of several GPUs has its part of
// all work, and one GPU takes them together. Their deltas' rows begin at 64 bytes.
BlockRule cuda_block_rule() {
  BlockRule rule;
  rule.delta_elements = Index(1) << 24;
  rule.minimum_width = 8192;
  rule.maximum_width = 65536;
  rule.multiple = 128;
  rule.wanted_blocks = 4;
  rule.dealt = 8;
  rule.gradient_elements = Index(1) << 23;
  rule.most_blocks = 256;
  rule.minimum_hidden_width = 32;
  rule.hidden_multiple = 32;
  return rule;
}

}  // namespace norn
