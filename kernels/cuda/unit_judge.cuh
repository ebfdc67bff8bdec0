// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/cost.h"

#include <optional>
#include <type_traits>
#include <variant>

/// Output units judged in the registers of the product that made them. Absent entries are by far
/// the most, so they have formulas of their own with as few special-function instructions as will
/// do; stored ones go through element_cost(). Each judge has
///   Cost        the cost of up to 64 absent units, gathered; total() ends it,
///   absent()    the delta of a pre-activation with target 0, to be multiplied by scale,
///   padding     a pre-activation that has neither cost nor delta.
namespace norn::cuda {

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Sigmoid with a cross entropy. With kHasMargin, units at most at `margin` count for nothing.
template <class L, bool kHasMargin>
struct SigmoidJudge {
  static constexpr float padding = -HUGE_VALF;
  Sigmoid activation;
  L loss;
  float margin;
  float scale;

  /// -ln(1 - y) = max(z, 0) + ln(1 + e^-|z|). The logarithms are joined: `product` becomes that of
  /// all (1 + e^-|z|), less 1 so that small ones are not lost.
  struct Cost {
    float product = 0.0f;
    float linear = 0.0f;
    __device__ float total() const { return log1pf(product) + linear; }
  };
  __device__ float absent(float z, Cost& cost) const {
    constexpr float kLog2E = 1.44269504088896341f;
    float e = exp2_fast(fabsf(z) * -kLog2E);
    const float larger = reciprocal_fast(1.0f + e);
    float y = z < 0.0f ? e * larger : larger;
    float linear = fmaxf(z, 0.0f);
    if (kHasMargin && y <= margin) e = y = linear = 0.0f;  // in this form NaN counts
    cost.product = __fmaf_rn(cost.product, e, cost.product + e);
    cost.linear += linear;
    return y;
  }
};

/// Any other pair.
template <class F, class L>
struct PlainJudge {
  static constexpr float padding = std::is_same_v<F, Linear> ? 0.0f : -HUGE_VALF;
  static constexpr float scale = 1.0f;
  F activation;
  L loss;
  struct Cost {
    float sum = 0.0f;
    __device__ float total() const { return sum; }
  };
  __device__ float absent(float z, Cost& cost) const {
    const ElementCost<float> unit = element_cost(activation, loss, z, 0.0f);
    cost.sum += unit.cost;
    return unit.delta;
  }
};

using UnitJudge =
    std::variant<SigmoidJudge<CrossEntropy, false>, SigmoidJudge<ScaledMarginalCrossEntropy, false>,
                 SigmoidJudge<ScaledMarginalCrossEntropy, true>,
                 SigmoidJudge<DataScaledMarginalCrossEntropy, false>,
                 SigmoidJudge<DataScaledMarginalCrossEntropy, true>,
                 PlainJudge<Sigmoid, SquaredError>, PlainJudge<Linear, SquaredError>>;

/// Nothing for pairs that have no judge.
inline std::optional<UnitJudge> unit_judge(const Activation& activation, const Loss& loss) {
  const bool sigmoid = std::holds_alternative<Sigmoid>(activation);
  if (sigmoid && std::holds_alternative<CrossEntropy>(loss))
    return SigmoidJudge<CrossEntropy, false>{{}, {}, 0.0f, 1.0f};
  const auto with_margin = [](const auto& l) -> UnitJudge {
    using L = std::remove_cvref_t<decltype(l)>;
    if (l.zero_target > 0.0f) return SigmoidJudge<L, true>{{}, l, l.zero_target, l.zero_scale};
    return SigmoidJudge<L, false>{{}, l, 0.0f, l.zero_scale};
  };
  if (sigmoid) {
    if (const auto* l = std::get_if<ScaledMarginalCrossEntropy>(&loss)) return with_margin(*l);
    if (const auto* l = std::get_if<DataScaledMarginalCrossEntropy>(&loss)) return with_margin(*l);
  }
  if (const auto* l = std::get_if<SquaredError>(&loss)) {
    if (sigmoid) return PlainJudge<Sigmoid, SquaredError>{{}, *l};
    if (std::holds_alternative<Linear>(activation)) return PlainJudge<Linear, SquaredError>{{}, *l};
  }
  return std::nullopt;
}

}  // namespace norn::cuda
