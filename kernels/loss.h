// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <variant>

/// Losses of one output unit. Each is a small value type with
///   name, aliases       the words of JSON "ErrorFunction" (matched without regard to case),
///   cost(y, t)          the error of output y for target t, not yet weighted,
///   slope(y, t)         d cost / d y,
///   stored_target(v)    the target that a stored entry of value v means; entries that are absent
///                       mean target 0,
///   is_cross_entropy    whether the loss of SoftMax layers depends on stored targets alone; then
///                       softmax_targets() says what these count for,
///   has_cost_kernels    as of activations,
///   model_number        its number in model files: DSSTNE's, else one that nobody has,
///   parameters()        as kernels/parameter.h says, where it has any.
/// To add one: write its struct and list it in Loss; what is missing does not compile, and what is
/// wrong fails tests/kernels/traits_test.cpp. DeltaBoost is no loss's business: it multiplies what
/// any of them gives (boost_of() in kernels/cost.h).
/// Formulas: DSSTNE's (docs/user/numerics.md), with its slips mended. Logarithms are of max(1e-12,
/// .), and the slope is that of the guarded function. Comparisons are written so that NaN is handed
/// on.
namespace norn {

namespace loss_guard {
template <typename T>
NORN_HD T log(T x) {
  return math::log(math::max(T(1e-12), x));
}
template <typename T>
NORN_HD T log_slope(T x) {
  return x <= T(1e-12) ? T(0) : T(1) / x;
}
}  // namespace loss_guard

/// What targets count for when a SoftMax layer has a cross entropy as its loss.
struct CrossEntropyTargets {
  float scale = 1.0f;
  float one_target = 1.0f;      ///< they count while y is below it; from 1 on always
  bool uses_values = true;      ///< whether a stored entry counts for its value, or for 1
  bool divides_boolean = true;  ///< whether an example without weight shares 1 among its targets
};

inline constexpr std::string_view kMargins = "ScaledMarginalCrossEntropy";
inline constexpr ParameterKey kOneScale{.name = "oneScale",
                                        .help = "Factor of the cost of ones.",
                                        .limits = {.low = 0},
                                        .object = kMargins,
                                        .item = ModelItem{"SMCE_oneScale", 1.0}};
inline constexpr ParameterKey kZeroScale{.name = "zeroScale",
                                         .help = "Factor of the cost of zeros.",
                                         .limits = {.low = 0},
                                         .object = kMargins,
                                         .item = ModelItem{"SMCE_zeroScale", 1.0}};
inline constexpr ParameterKey kOneTarget{.name = "oneTarget",
                                         .help = "Ones count while their output is below it.",
                                         .limits = {.low = 0, .high = 1},
                                         .object = kMargins,
                                         .item = ModelItem{"SMCE_oneTarget", 0.9}};
inline constexpr ParameterKey kZeroTarget{.name = "zeroTarget",
                                          .help = "Zeros count while their output is above it.",
                                          .limits = {.low = 0, .high = 1},
                                          .object = kMargins,
                                          .item = ModelItem{"SMCE_zeroTarget", 0.1}};

inline constexpr ParameterKey kHuberDelta{
    .name = "Delta",
    .help = "Distance from the target up to which the cost is squared; beyond it is linear.",
    .limits = {.low = 0, .above_low = true},
    .object = "Huber"};

struct AbsoluteError {
  static constexpr std::string_view name = "L1";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr bool is_cross_entropy = false;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 0;
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    return math::abs(y - t);
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    return y > t ? T(1) : (y < t ? T(-1) : T(0));
  }
  template <typename T>
  NORN_HD T stored_target(T v) const {
    return v;
  }
};

struct SquaredError {
  static constexpr std::string_view name = "L2";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr bool is_cross_entropy = false;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 1;
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    return T(0.5) * (y - t) * (y - t);
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    return y - t;
  }
  template <typename T>
  NORN_HD T stored_target(T v) const {
    return v;
  }
};

/// Squared near the target, linear from a distance of delta on, so that single ratings that are far
/// off do not lead. Huber, "Robust estimation of a location parameter", Ann. Math. Stat. 35, 1964.
struct Huber {
  static constexpr std::string_view name = "Huber";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr bool is_cross_entropy = false;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 7;
  float delta = 1.0f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kHuberDelta, self.delta);
  }
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    const T distance = math::abs(y - t);
    const T squared = math::min(T(delta), distance);
    return squared * (distance - T(0.5) * squared);
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    return math::max(-T(delta), math::min(T(delta), y - t));
  }
  template <typename T>
  NORN_HD T stored_target(T v) const {
    return v;
  }
};

/// Half the squared shortfall below |t| where t > 0, half the squared excess over |t| elsewhere.
struct SquaredHinge {
  static constexpr std::string_view name = "L2Hinge";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr bool is_cross_entropy = false;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 6;
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    const T d = slope(y, t);
    return T(0.5) * d * d;
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    const T d = y - math::abs(t);
    return t > T(0) ? math::min(T(0), d) : math::max(T(0), d);
  }
  template <typename T>
  NORN_HD T stored_target(T v) const {
    return v;
  }
};

/// max(0, 1 - t * y), for targets -1 and 1.
struct Hinge {
  static constexpr std::string_view name = "Hinge";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr bool is_cross_entropy = false;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 5;
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    return math::max(T(0), T(1) - t * y);
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    return T(1) - t * y <= T(0) ? T(0) : -t;
  }
  template <typename T>
  NORN_HD T stored_target(T v) const {
    return v;
  }
};

struct CrossEntropy {
  static constexpr std::string_view name = "CrossEntropy";
  static constexpr std::array<std::string_view, 1> aliases{"Cross Entropy"};
  static constexpr bool is_cross_entropy = true;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 2;
  CrossEntropyTargets softmax_targets() const { return {}; }
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    return -t * loss_guard::log(y) - (T(1) - t) * loss_guard::log(T(1) - y);
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    return (T(1) - t) * loss_guard::log_slope(T(1) - y) - t * loss_guard::log_slope(y);
  }
  template <typename T>
  NORN_HD T stored_target(T v) const {
    return v;
  }
};

/// Cross entropy that lets go of a unit once it is beyond its margin: ones count while y <
/// one_target, zeros while y > zero_target. Only targets of exactly 1 and 0 count; every stored
/// entry is a one.
struct ScaledMarginalCrossEntropy {
  static constexpr std::string_view name = "ScaledMarginalCrossEntropy";
  static constexpr std::array<std::string_view, 1> aliases{"SMCE"};
  static constexpr bool is_cross_entropy = true;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 3;
  float one_target = 0.9f;
  float zero_target = 0.1f;
  float one_scale = 1.0f;
  float zero_scale = 1.0f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kOneScale, self.one_scale);
    visit(kZeroScale, self.zero_scale);
    visit(kOneTarget, self.one_target);
    visit(kZeroTarget, self.zero_target);
  }
  CrossEntropyTargets softmax_targets() const {
    return {.scale = one_scale, .one_target = one_target, .uses_values = false};
  }
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    if (t == T(1)) return y >= T(one_target) ? T(0) : -T(one_scale) * loss_guard::log(y);
    if (t == T(0)) return y <= T(zero_target) ? T(0) : -T(zero_scale) * loss_guard::log(T(1) - y);
    return T(0);
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    if (t == T(1)) return y >= T(one_target) ? T(0) : -T(one_scale) * loss_guard::log_slope(y);
    if (t == T(0))
      return y <= T(zero_target) ? T(0) : T(zero_scale) * loss_guard::log_slope(T(1) - y);
    return T(0);
  }
  template <typename T>
  NORN_HD T stored_target(T) const {
    return T(1);
  }
};

/// As ScaledMarginalCrossEntropy, but a one weighs as much as its stored value.
struct DataScaledMarginalCrossEntropy {
  static constexpr std::string_view name = "DataScaledMarginalCrossEntropy";
  static constexpr std::array<std::string_view, 1> aliases{"DSMCE"};
  static constexpr bool is_cross_entropy = true;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 4;
  float one_target = 0.9f;
  float zero_target = 0.1f;
  float one_scale = 1.0f;
  float zero_scale = 1.0f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kOneScale, self.one_scale);
    visit(kZeroScale, self.zero_scale);
    visit(kOneTarget, self.one_target);
    visit(kZeroTarget, self.zero_target);
  }
  CrossEntropyTargets softmax_targets() const {
    return {.scale = one_scale, .one_target = one_target, .divides_boolean = false};
  }
  template <typename T>
  NORN_HD T cost(T y, T t) const {
    if (t != T(0)) return y >= T(one_target) ? T(0) : -T(one_scale) * t * loss_guard::log(y);
    return y <= T(zero_target) ? T(0) : -T(zero_scale) * loss_guard::log(T(1) - y);
  }
  template <typename T>
  NORN_HD T slope(T y, T t) const {
    if (t != T(0)) return y >= T(one_target) ? T(0) : -T(one_scale) * t * loss_guard::log_slope(y);
    return y <= T(zero_target) ? T(0) : T(zero_scale) * loss_guard::log_slope(T(1) - y);
  }
  template <typename T>
  NORN_HD T stored_target(T v) const {
    return v;
  }
};

using Loss = std::variant<AbsoluteError, SquaredError, SquaredHinge, Hinge, CrossEntropy,
                          ScaledMarginalCrossEntropy, DataScaledMarginalCrossEntropy, Huber>;

/// That a value says all that is asked of a loss.
template <typename L>
concept LossValue = requires(const L loss, float y, double exact) {
  { loss.cost(y, y) } -> std::same_as<float>;
  { loss.slope(exact, exact) } -> std::same_as<double>;
  { loss.stored_target(y) } -> std::same_as<float>;
  requires std::same_as<decltype(L::has_cost_kernels), const bool>;
  requires std::same_as<decltype(L::model_number), const std::uint32_t>;
  requires !L::is_cross_entropy || requires {
    { loss.softmax_targets() } -> std::same_as<CrossEntropyTargets>;
  };
};
template <typename... L>
consteval bool are_losses(std::variant<L...>*) {
  return (LossValue<L> && ...);
}
static_assert(are_losses(static_cast<Loss*>(nullptr)));

/// Cost of one output element and its delta = d cost / d z.
template <typename T>
struct ElementCost {
  T cost;
  T delta;
};

/// Cost and delta of pre-activation z for target t: slope times slope.
template <typename F, typename L, typename T>
NORN_HD ElementCost<T> element_cost(const F& f, const L& loss, T z, T t) {
  const T y = f.value(z);
  return {loss.cost(y, t), loss.slope(y, t) * slope_at(f, z, y)};
}

/// The closed forms for Sigmoid: exact where y rounds to 0 or 1.
template <typename T>
NORN_HD ElementCost<T> element_cost(const Sigmoid&, const CrossEntropy&, T z, T t) {
  const SigmoidParts<T> unit(z);
  return {math::max(z, T(0)) + unit.log_term - t * z, unit.y - t};
}

/// A unit that its margin lets go of comes with scale 0, which is multiplied so that NaN is handed
/// on.
template <typename T>
NORN_HD ElementCost<T> marginal_sigmoid_cost(const SigmoidParts<T>& unit, T z, bool one, T scale) {
  return {scale * (math::max(one ? -z : z, T(0)) + unit.log_term),
          scale * (one ? -unit.rest : unit.y)};
}

template <typename T>
NORN_HD ElementCost<T> element_cost(const Sigmoid&, const ScaledMarginalCrossEntropy& loss, T z,
                                    T t) {
  const SigmoidParts<T> unit(z);
  const bool one = t == T(1);
  const bool counts =
      one ? unit.y < T(loss.one_target) : (t == T(0) && unit.y > T(loss.zero_target));
  const T scale = counts ? (one ? T(loss.one_scale) : T(loss.zero_scale)) : T(0);
  return marginal_sigmoid_cost(unit, z, one, scale);
}

template <typename T>
NORN_HD ElementCost<T> element_cost(const Sigmoid&, const DataScaledMarginalCrossEntropy& loss, T z,
                                    T t) {
  const SigmoidParts<T> unit(z);
  const bool one = t != T(0);
  const bool counts = one ? unit.y < T(loss.one_target) : unit.y > T(loss.zero_target);
  const T scale = counts ? (one ? T(loss.one_scale) * t : T(loss.zero_scale)) : T(0);
  return marginal_sigmoid_cost(unit, z, one, scale);
}

}  // namespace norn
