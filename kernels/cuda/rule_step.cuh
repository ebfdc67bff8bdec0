// SPDX-License-Identifier: Apache-2.0
// One step of an update rule on the GPU: dense, sparse and fused updates share it and so give the
// same bits.
#pragma once

#include "norn/kernels/update_rule.h"

namespace norn::cuda {

/// One step of weight w with gradient g. The slots that the rule does not have stay as they are.
template <class Rule>
__device__ __forceinline__ void step_one(const Rule& rule, const UpdateStep& step, float& w,
                                         float g, float& s0, float& s1) {
  float slots[2] = {s0, s1};
  rule.step(w, g, slots, step);
  if constexpr (Rule::slots > 0) s0 = slots[0];
  if constexpr (Rule::slots > 1) s1 = slots[1];
}

}  // namespace norn::cuda
