// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/fused/tile_targets.cuh"
#include "kernels/fused.h"
#include "kernels/softmax_target.h"

#include <optional>
#include <type_traits>
#include <variant>

/// Loss and delta of output units in the registers of the product that made them. Absent entries
/// are by far the most, so they have formulas of their own with as few instructions as will do;
/// stored ones go through element_cost(). Each loss function has
///   Row       what the absent units of a row of a tile share; row() gives it,
///   Cost      the cost of up to 32 absent units, gathered. Where fits() is false the units are
///             to be evaluated again, safely; combine() adds another one's cost; total() ends it,
///   kCostsAbsent  whether absent units cost anything at all,
///   scale     of costs,
///   absent()  the deltas of two pre-activations with target 0; a unit's does not depend on kSafe,
///   stored()  delta of a unit with a stored target, and its cost beyond that of an absent one,
///   padding   a pre-activation that has neither cost nor delta.
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

struct StoredUnit {
  double cost;
  float delta;
};

/// Of independent units.
template <class F, class L>
__device__ StoredUnit stored_unit(const F& f, const L& loss, float z, const StoredTarget& target,
                                  float weight, float boost_one) {
  const ElementCost<float> one = element_cost(f, loss, z, loss.stored_target(target.value));
  const ElementCost<float> zero = element_cost(f, loss, z, 0.0f);
  return {double(weight) * double(target.weight * one.cost - zero.cost),
          weight * boost_one * target.weight * one.delta};
}

constexpr float kLog2E = 1.44269504088896341f;

/// Sigmoid with a cross entropy. With kHasMargin, units at most at `margin` count for nothing.
template <class L, bool kHasMargin>
struct SigmoidLoss {
  static constexpr float padding = -HUGE_VALF;
  static constexpr bool kCostsAbsent = true;
  Sigmoid activation;
  L loss;
  float margin;
  float scale;

  using Row = float;  ///< factor of the deltas
  __device__ Row row(const TileTargets& targets, int row, float boost_zero) const {
    return targets.weight[row] * boost_zero * scale;
  }
  __device__ StoredUnit stored(float z, const StoredTarget& target, const TileTargets& targets,
                               int row, float boost_one) const {
    return stored_unit(activation, loss, z, target, targets.weight[row], boost_one);
  }

  /// -ln(1 - y) = ln(1 + e^z). The logarithms are combined: `product` becomes that of all (1 +
  /// e^z), less 1 so that small ones are not lost. Where that may be too much for a float, each is
  /// max(z, 0) + ln(1 + e^-|z|).
  struct Cost {
    float product = 0.0f;
    float linear = 0.0f;
    __device__ bool fits() const { return product < 0x1p59f; }
    __device__ void combine(const Cost& other) {
      product = __fmaf_rn(product, other.product, product + other.product);
      linear += other.linear;
    }
    __device__ float total() const { return log1pf(product) + linear; }
  };

  /// With e = e^z, y1 = e1 / (1 + e1) = (e1 + e1 * e2) / ((1 + e1) * (1 + e2)): one division does
  /// for two, and what it divides by is the pair's part of the cost.
  template <bool kSafe>
  __device__ float2 absent(float z1, float z2, Row factor, Cost& cost) const {
    const float t1 = z1 * kLog2E;
    const float t2 = z2 * kLog2E;
    float e1 = exp2_fast(t1);
    float e2 = exp2_fast(t2);
    const float both = e1 * e2;
    const float part1 = e1 + both;
    const float part2 = e2 + both;
    float more = part1 + e2;
    const float inverse = reciprocal_fast(1.0f + more);
    const float scaled = inverse * factor;
    float2 delta = {part1 * scaled, part2 * scaled};
    float y1 = part1 * inverse;
    float y2 = part2 * inverse;
    if (kSafe && !(t1 < 59.0f && t2 < 59.0f)) {  // all others fit
      y1 = sigmoid(t1);
      y2 = sigmoid(t2);
      delta = {factor * y1, factor * y2};
    }
    if (kSafe) {
      e1 = exp2_fast(-fabsf(t1));
      e2 = exp2_fast(-fabsf(t2));
    }
    bool counts1 = true;
    bool counts2 = true;
    if (kHasMargin) {  // in this form NaN counts
      counts1 = !(y1 <= margin);
      counts2 = !(y2 <= margin);
      if (!counts1) e1 = delta.x = 0.0f;
      if (!counts2) e2 = delta.y = 0.0f;
    }
    if (kSafe)
      cost.linear += (counts1 ? fmaxf(z1, 0.0f) : 0.0f) + (counts2 ? fmaxf(z2, 0.0f) : 0.0f);
    if (kSafe || kHasMargin) more = __fmaf_rn(e1, e2, e1 + e2);
    cost.product = __fmaf_rn(cost.product, more, cost.product + more);
    return delta;
  }

 private:
  static __device__ float sigmoid(float t) {
    const float e = exp2_fast(-fabsf(t));
    const float larger = reciprocal_fast(1.0f + e);
    return t < 0.0f ? e * larger : larger;
  }
};

/// Any other pair.
template <class F, class L>
struct PlainLoss {
  static constexpr float padding = std::is_same_v<F, Linear> ? 0.0f : -HUGE_VALF;
  static constexpr bool kCostsAbsent = true;
  static constexpr float scale = 1.0f;
  F activation;
  L loss;
  using Row = float;
  __device__ Row row(const TileTargets& targets, int row, float boost_zero) const {
    return targets.weight[row] * boost_zero * scale;
  }
  __device__ StoredUnit stored(float z, const StoredTarget& target, const TileTargets& targets,
                               int row, float boost_one) const {
    return stored_unit(activation, loss, z, target, targets.weight[row], boost_one);
  }
  struct Cost {
    float sum = 0.0f;
    static __device__ constexpr bool fits() { return true; }
    __device__ void combine(const Cost& other) { sum += other.sum; }
    __device__ float total() const { return sum; }
  };
  template <bool kSafe>
  __device__ float2 absent(float z1, float z2, Row factor, Cost& cost) const {
    const ElementCost<float> unit1 = element_cost(activation, loss, z1, 0.0f);
    const ElementCost<float> unit2 = element_cost(activation, loss, z2, 0.0f);
    cost.sum += unit1.cost + unit2.cost;
    return {factor * unit1.delta, factor * unit2.delta};
  }
};

/// SoftMax with a cross entropy whose coupling follows from the targets: an absent unit's delta is
/// factor * e^(z - maximum), and it costs nothing.
struct SoftMaxLoss {
  static constexpr float padding = -HUGE_VALF;
  static constexpr bool kCostsAbsent = false;
  static constexpr float scale = 1.0f;
  SoftMaxTargetRule rule;

  struct Row {
    float factor;
    float shift;
  };
  __device__ Row row(const TileTargets& targets, int row, float boost_zero) const {
    return {targets.weight[row] * boost_zero, targets.maximum[row] * kLog2E};
  }
  struct Cost {
    static __device__ constexpr bool fits() { return true; }
    __device__ void combine(const Cost&) {}
    static __device__ constexpr float total() { return 0.0f; }
  };
  template <bool kSafe>
  __device__ float2 absent(float z1, float z2, const Row& row, Cost&) const {
    return {exp2_fast(__fmaf_rn(z1, kLog2E, -row.shift)) * row.factor,
            exp2_fast(__fmaf_rn(z2, kLog2E, -row.shift)) * row.factor};
  }
  __device__ StoredUnit stored(float z, const StoredTarget& target, const TileTargets& targets,
                               int row, float boost_one) const {
    const float maximum = targets.maximum[row];
    const float tau = rule.stored(targets.unit[row], target);
    const float e = exp2_fast(__fmaf_rn(z, kLog2E, -(maximum * kLog2E)));
    return {double(tau) * (double(targets.log_total[row]) + (double(maximum) - double(z))),
            boost_one * (targets.weight[row] * e - tau)};
  }
};

using UnitLoss = std::variant<SoftMaxLoss, SigmoidLoss<CrossEntropy, false>,
                              SigmoidLoss<ScaledMarginalCrossEntropy, false>,
                              SigmoidLoss<ScaledMarginalCrossEntropy, true>,
                              SigmoidLoss<DataScaledMarginalCrossEntropy, false>,
                              SigmoidLoss<DataScaledMarginalCrossEntropy, true>,
                              PlainLoss<Sigmoid, SquaredError>, PlainLoss<Linear, SquaredError>>;

/// Nothing for what has no such function.
inline std::optional<UnitLoss> unit_loss(const SoftMaxCost& rule) {
  if (!CostKernels::coupling_from_targets(rule)) return std::nullopt;
  return SoftMaxLoss{*softmax_target_rule(rule.loss)};
}
inline std::optional<UnitLoss> unit_loss(const UnitCost& rule) {
  const Activation& activation = rule.activation;
  const Loss& loss = rule.loss;
  const bool sigmoid = std::holds_alternative<Sigmoid>(activation);
  if (sigmoid && std::holds_alternative<CrossEntropy>(loss))
    return SigmoidLoss<CrossEntropy, false>{{}, {}, 0.0f, 1.0f};
  const auto with_margin = [](const auto& l) -> UnitLoss {
    using L = std::remove_cvref_t<decltype(l)>;
    if (l.zero_target > 0.0f) return SigmoidLoss<L, true>{{}, l, l.zero_target, l.zero_scale};
    return SigmoidLoss<L, false>{{}, l, 0.0f, l.zero_scale};
  };
  if (sigmoid) {
    if (const auto* l = std::get_if<ScaledMarginalCrossEntropy>(&loss)) return with_margin(*l);
    if (const auto* l = std::get_if<DataScaledMarginalCrossEntropy>(&loss)) return with_margin(*l);
  }
  if (const auto* l = std::get_if<SquaredError>(&loss)) {
    if (sigmoid) return PlainLoss<Sigmoid, SquaredError>{{}, *l};
    if (std::holds_alternative<Linear>(activation)) return PlainLoss<Linear, SquaredError>{{}, *l};
  }
  return std::nullopt;
}

}  // namespace norn::cuda
