// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/update.h"

#include <array>
#include <tuple>

/// An update rule over a run of weights: the loop that dense and row-wise updates share.
namespace norn {

/// Where the runs of a rule's state begin.
template <typename Rule>
using SlotRuns = std::array<float*, std::size_t(Rule::slots)>;

template <typename Rule>
SlotRuns<Rule> slots_at(const SlotViews& slot, Index row, Index column) {
  SlotRuns<Rule> at;
  for (std::size_t s = 0; s < at.size(); ++s) at[s] = slot[s].row(row) + column;
  return at;
}

/// The loop of step_run(), with or without a clip. Each array is an argument, since compilers heed
/// __restrict only there.
template <bool kClips, typename Rule, typename... Slot>
void step_run_as(const Rule& rule, const UpdateStep& settings, Index count, float* __restrict w,
                 const float* __restrict g, Slot* __restrict... slot) {
  const Rule r = rule;
  const UpdateStep u = settings;
  for (Index j = 0; j < count; ++j) {
    float weight = w[j];
    float s[sizeof...(Slot) + 1] = {slot[j]..., 0.0f};
    r.step(weight, kClips ? clipped(g[j], u.clip) : g[j], s, u);
    w[j] = weight;
    std::size_t i = 0;
    ((slot[j] = s[i++]), ...);
  }
}

/// One step of `count` weights.
template <typename Rule>
void step_run(const Rule& rule, const UpdateStep& settings, Index count, float* w, const float* g,
              const SlotRuns<Rule>& slot) {
  std::apply(
      [&](auto*... s) {
        if (settings.clip > 0.0f)
          step_run_as<true>(rule, settings, count, w, g, s...);
        else
          step_run_as<false>(rule, settings, count, w, g, s...);
      },
      slot);
}

}  // namespace norn
