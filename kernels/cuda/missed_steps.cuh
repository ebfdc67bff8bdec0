// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/row_lanes.cuh"
#include "kernels/cuda/rule_step.cuh"
#include "kernels/cuda/update_corrections.h"

#include <type_traits>

/// Rows that lag behind: a warp puts its columns through the steps that they missed, with the bits
/// of steps that were done in their time.
namespace norn::cuda {

/// The settings of all steps of a run.
struct StepSettings {
  UpdateSchedule schedule;
  CorrectionTable corrections;  ///< empty for rules that have none

  bool regularised() const { return schedule.l1 != 0.0f || schedule.l2 != 0.0f; }
  __device__ UpdateStep at(std::int64_t t) const {
    UpdateStep u{schedule.rate_at(t), schedule.l2, schedule.l1, 1.0f, 1.0f, 0.0f};
    if (t < corrections.count) {
      const float2 c = corrections.at[t];
      u.correct1 = c.x;
      u.correct2 = c.y;
    }
    return u;
  }
};

/// Whether rows of this rule need no steps without gradient.
template <class Rule>
bool rests(const Rule&, const UpdateSchedule& schedule) {
  return Rule::rests_without_gradient && schedule.l1 == 0.0f && schedule.l2 == 0.0f;
}

/// The settings of 32 steps, one a lane.
struct StepWindow {
  UpdateStep mine;
  __device__ UpdateStep of(int k) const {
    UpdateStep u = mine;
    u.rate = __shfl_sync(kAllLanes, mine.rate, k);
    u.correct1 = __shfl_sync(kAllLanes, mine.correct1, k);
    u.correct2 = __shfl_sync(kAllLanes, mine.correct2, k);
    return u;
  }
};

/// Weights and their state.
template <int kWidth>
struct Weights {
  Lane<kWidth> w, s0, s1;

  template <class Rule>
  __device__ void step(const Rule& rule, const UpdateStep& u, const Lane<kWidth>& g) {
    step_some(rule, u, w.v, g.v, s0.v, s1.v);
  }
  __device__ bool has_state() const {
    bool any = false;
    for (int j = 0; j < kWidth; ++j) any = any || s0.v[j] != 0.0f || s1.v[j] != 0.0f;
    return any;
  }
  __device__ bool same_bits(const Weights& other) const {
    const auto equal = [](float a, float b) { return __float_as_uint(a) == __float_as_uint(b); };
    bool same = true;
    for (int j = 0; j < kWidth; ++j)
      same = same && equal(w.v[j], other.w.v[j]) && equal(s0.v[j], other.s0.v[j]) &&
             equal(s1.v[j], other.s1.v[j]);
    return same;
  }
};

/// Whether Adam's steps without gradient and regularisation, the one with settings u and `left`
/// after it, all leave w as it is. Their changes have at most the size of `bound`, which is worked
/// out with the same operations, each of them monotone, from larger operands: |s0| and the rate
/// only fall; so do the corrections, to 1, but for roundings that the factor 1.001 covers; s1 is at
/// least what mu1^left leaves of it, half of that to be safe, or nothing near the smallest numbers.
__device__ inline bool is_settled(const Adam& rule, const UpdateSchedule& schedule,
                                  const UpdateStep& u, std::int64_t left, float w, float s0,
                                  float s1) {
  const auto is_fraction = [](float x) { return x >= 0.0f && x < 1.0f; };
  if (!is_fraction(rule.mu) || !is_fraction(rule.mu1) || !is_fraction(schedule.beta1) ||
      !is_fraction(schedule.beta2) || !(schedule.decay >= 0.0f) || !(schedule.rate >= 0.0f) ||
      !isfinite(w) || !(s1 >= 0.0f))
    return false;
  const float decayed = s1 * (0.5f * powf(rule.mu1, float(left + 1)));
  const float least = decayed >= 1e-36f ? decayed : 0.0f;
  const float bound = (u.rate * 1.001f) * (fabsf(s0) * u.correct1) / (math::sqrt(least) + 1e-8f);
  const unsigned bits = __float_as_uint(w);
  return __float_as_uint(w - bound) == bits && __float_as_uint(w + bound) == bits;
}

/// Adam's steps [t, to) on weights that no longer change: the averages decay alone.
template <int kWidth>
__device__ void decay_averages(const Adam& rule, std::int64_t t, std::int64_t to,
                               Weights<kWidth>& weights) {
  const float none0 = (1.0f - rule.mu) * 0.0f, none1 = (1.0f - rule.mu1) * 0.0f * 0.0f;
  const auto decay_once = [&] {
    for (int j = 0; j < kWidth; ++j) {
      weights.s0.v[j] = rule.mu * weights.s0.v[j] + none0;
      weights.s1.v[j] = rule.mu1 * weights.s1.v[j] + none1;
    }
  };
  while (t < to) {
    const std::int64_t end = to - t > 64 ? t + 63 : to - 1;
    for (; t < end; ++t) decay_once();
    const Weights<kWidth> before = weights;
    decay_once();
    ++t;
    if (weights.same_bits(before)) return;
  }
}

/// Puts weights through steps [from, to) without gradient. All lanes of the warp take part.
template <int kWidth, class Rule>
__device__ void replay(const Rule& rule, const StepSettings& settings, bool regularised,
                       std::int64_t from, std::int64_t to, Weights<kWidth>& weights) {
  const Lane<kWidth> none = {};
  for (std::int64_t t = from; t < to; t += kWarp) {
    const Index lane = Index(threadIdx.x % kWarp);
    const StepWindow window{settings.at(t + lane < to ? t + lane : to - 1)};
    const int last = int(to - t < kWarp ? to - t : kWarp) - 1;
    for (int k = 0; k < last; ++k) {
      weights.step(rule, window.of(k), none);
      // A row that no batch has touched yet comes to rest here.
      if (!regularised && t + k == from && !__any_sync(kAllLanes, weights.has_state())) return;
    }
    const Weights<kWidth> before = weights;
    weights.step(rule, window.of(last), none);
    if (regularised) continue;
    if constexpr (Rule::idles_alike) {
      if (__all_sync(kAllLanes, weights.same_bits(before))) return;
    } else if constexpr (std::is_same_v<Rule, Adam>) {
      const std::int64_t next = t + last + 1;
      const UpdateStep u = window.of(last);
      bool settled = next < to && next >= settings.schedule.warm_up;  // until then the rate rises
      for (int j = 0; j < kWidth; ++j)
        settled = settled && is_settled(rule, settings.schedule, u, to - next, weights.w.v[j],
                                        weights.s0.v[j], weights.s1.v[j]);
      if (__all_sync(kAllLanes, settled)) return decay_averages(rule, next, to, weights);
    }
  }
}

}  // namespace norn::cuda
