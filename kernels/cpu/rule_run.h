// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/update_rule.h"
#include "norn/tensor/views.h"

/// An update rule over a run of weights: the loop that dense and row-wise updates share.
namespace norn {

/// The loop of step_run(), with or without a clip.
template <bool kClips, typename Rule>
void step_run_as(const Rule& rule, const UpdateStep& settings, Index count, float* __restrict w,
                 const float* __restrict g, float* __restrict s0, float* __restrict s1) {
  const Rule r = rule;
  const UpdateStep u = settings;
  for (Index j = 0; j < count; ++j) {
    float weight = w[j];
    float s[2] = {0.0f, 0.0f};
    if constexpr (Rule::slots > 0) s[0] = s0[j];
    if constexpr (Rule::slots > 1) s[1] = s1[j];
    r.step(weight, kClips ? clipped(g[j], u.clip) : g[j], s, u);
    w[j] = weight;
    if constexpr (Rule::slots > 0) s0[j] = s[0];
    if constexpr (Rule::slots > 1) s1[j] = s[1];
  }
}

/// One step of `count` weights. The slots that the rule does not have are not read.
template <typename Rule>
void step_run(const Rule& rule, const UpdateStep& settings, Index count, float* w, const float* g,
              float* s0, float* s1) {
  if (settings.clip > 0.0f)
    step_run_as<true>(rule, settings, count, w, g, s0, s1);
  else
    step_run_as<false>(rule, settings, count, w, g, s0, s1);
}

}  // namespace norn
