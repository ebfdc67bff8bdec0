// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/sparse/row_lanes.cuh"
#include "kernels/cuda/update/rule_step.cuh"
#include "kernels/cuda/update/rule_times.h"
#include "kernels/update.h"

/// Rows that lag behind: a warp puts its columns through the steps that they missed, with the bits
/// of steps that were done in their time.
namespace norn::cuda {

/// The settings of all steps of a run.
struct StepSettings {
  UpdateSchedule schedule;
  TimesTable times;  ///< empty for rules that compute nothing for themselves

  bool regularised() const { return schedule.l1 != 0.0f || schedule.l2 != 0.0f; }
  __device__ UpdateStep at(std::int64_t t) const {
    UpdateStep u{schedule.rate_at(t), schedule.l2, schedule.l1, {1.0f, 1.0f}, 0.0f};
    if (t < times.count) {
      const float2 own = times.at[t];
      u.times[0] = own.x;
      u.times[1] = own.y;
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
    for (int i = 0; i < kMostTimes; ++i) u.times[i] = __shfl_sync(kAllLanes, mine.times[i], k);
    return u;
  }
};

/// Weights and their state.
template <int kWidth, class Rule>
struct Weights {
  static constexpr int kHeld = kHeldSlots<Rule>;
  Lane<kWidth> w;
  float state[kHeld][kWidth];

  __device__ void step(const Rule& rule, const UpdateStep& u, const Lane<kWidth>& g) {
    step_some(rule, u, w.v, g.v, state);
  }
  __device__ bool has_state() const {
    bool any = false;
    for (int s = 0; s < Rule::slots; ++s)
      for (int j = 0; j < kWidth; ++j) any = any || state[s][j] != 0.0f;
    return any;
  }
  __device__ bool same_bits(const Weights& other) const {
    const auto equal = [](float a, float b) { return __float_as_uint(a) == __float_as_uint(b); };
    bool same = true;
    for (int j = 0; j < kWidth; ++j) {
      same = same && equal(w.v[j], other.w.v[j]);
      for (int s = 0; s < Rule::slots; ++s) same = same && equal(state[s][j], other.state[s][j]);
    }
    return same;
  }
  /// The slots of weight j.
  __device__ void read_slots(int j, float* slots) const {
    for (int s = 0; s < kHeld; ++s) slots[s] = state[s][j];
  }
  template <class Load>
  __device__ void load_state(const Load& load) {
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) {
      const Lane<kWidth> lane = load(s);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) state[s][j] = lane.v[j];
    }
  }
  template <class Store>
  __device__ void store_state(const Store& store) const {
#pragma unroll
    for (int s = 0; s < Rule::slots; ++s) {
      Lane<kWidth> lane;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) lane.v[j] = state[s][j];
      store(s, lane);
    }
  }
};

/// The state of all rows: as many matrices as the rule has slots, one at least.
template <class Rule>
struct SlotMatrices {
  MatrixView<float> of[kHeldSlots<Rule>];
  explicit SlotMatrices(const SlotViews& slot) {
    for (int s = 0; s < kHeldSlots<Rule>; ++s) of[s] = slot[std::size_t(s)];
  }
};

/// Whether steps without gradient and regularisation, the one with settings u and `left` after it,
/// all leave w as it is.
template <class Rule>
__device__ bool is_settled(const Rule& rule, const UpdateSchedule& schedule, const UpdateStep& u,
                           std::int64_t left, float w, const float* slots) {
  if (!(schedule.decay >= 0.0f) || !(schedule.rate >= 0.0f) || !isfinite(w)) return false;
  const float bound = rule.idle_bound(slots, u, left);
  const unsigned bits = __float_as_uint(w);
  return __float_as_uint(w - bound) == bits && __float_as_uint(w + bound) == bits;
}

/// Steps [t, to) on weights that no longer change: the state alone does.
template <int kWidth, class Rule>
__device__ void idle(const Rule& rule, std::int64_t t, std::int64_t to,
                     Weights<kWidth, Rule>& weights) {
  const auto idle_once = [&] {
    for (int j = 0; j < kWidth; ++j) {
      float slots[kHeldSlots<Rule>];
      weights.read_slots(j, slots);
      rule.idle(slots);
      for (int s = 0; s < Rule::slots; ++s) weights.state[s][j] = slots[s];
    }
  };
  while (t < to) {
    const std::int64_t end = to - t > 64 ? t + 63 : to - 1;
    for (; t < end; ++t) idle_once();
    const Weights<kWidth, Rule> before = weights;
    idle_once();
    ++t;
    if (weights.same_bits(before)) return;
  }
}

/// Puts weights through steps [from, to) without gradient. All lanes of the warp take part.
template <int kWidth, class Rule>
__device__ void replay(const Rule& rule, const StepSettings& settings, bool regularised,
                       std::int64_t from, std::int64_t to, Weights<kWidth, Rule>& weights) {
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
    const Weights<kWidth, Rule> before = weights;
    weights.step(rule, window.of(last), none);
    if (regularised) continue;
    if constexpr (Rule::idles_alike) {
      if (__all_sync(kAllLanes, weights.same_bits(before))) return;
    } else if constexpr (HasIdleBound<Rule>) {
      const std::int64_t next = t + last + 1;
      const UpdateStep u = window.of(last);
      bool settled = next < to && next >= settings.schedule.warm_up;  // until then the rate rises
      for (int j = 0; j < kWidth; ++j) {
        float slots[kHeldSlots<Rule>];
        weights.read_slots(j, slots);
        settled =
            settled && is_settled(rule, settings.schedule, u, to - next, weights.w.v[j], slots);
      }
      if (__all_sync(kAllLanes, settled)) return idle(rule, next, to, weights);
    }
  }
}

}  // namespace norn::cuda
