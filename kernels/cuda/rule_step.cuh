// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/update_rule.h"

/// An update rule on one weight: what dense and row-wise updates share, so that both give the same
/// bits.
namespace norn::cuda {

/// One step of weight w with gradient g. Slots that the rule does not have are left alone.
template <class Rule>
__device__ void step_one(const Rule& rule, const UpdateStep& settings, float& w, float g, float& s0,
                         float& s1) {
  float s[2] = {s0, s1};
  rule.step(w, g, s, settings);
  s0 = s[0];
  s1 = s[1];
}

}  // namespace norn::cuda
