// SPDX-License-Identifier: Apache-2.0
// How a GPU wants its blocks, for builds without CUDA too: they plan runs on GPUs.
#include "norn/kernels/cuda.h"

namespace norn {

// Blocks of a GPU are large enough to fill it, and small enough for their deltas to stay in the
// second-level cache. Products are made in tiles of 128 x 128, one for each of 132 multiprocessors
// at a time: with 33 tiles across, batches of a multiple of 4 tiles leave none of them idle.
// Hidden layers are narrow: theirs are small, so that each of several GPUs has its part of all
// work, and one GPU takes them together. Their deltas' rows begin at 64 bytes.
BlockRule cuda_block_rule() {
  BlockRule rule;
  rule.delta_elements = Index(1) << 24;
  rule.minimum_width = 8192;
  rule.maximum_width = 65536;
  rule.multiple = 128;
  rule.round = 33 * 128;
  rule.wanted_blocks = 4;
  rule.gradient_elements = Index(1) << 23;
  rule.most_blocks = 256;
  rule.minimum_hidden_width = 64;
  rule.hidden_multiple = 32;
  return rule;
}

}  // namespace norn
