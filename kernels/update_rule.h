// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/math.h"
#include "kernels/parameter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

/// Weight update rules. Each is a small value type with
///   name, aliases           the words of JSON "Optimizer" and of --optimizer (matched without
///                           regard to case),
///   slots                   how many state arrays of the weight's shape it keeps; they are zero
///                           at first,
///   rests_without_gradient  whether a step without gradient and regularisation changes nothing,
///   idles_alike             whether such steps do the same whatever their rate and number: after
///                           one that changes nothing all the others change nothing either,
///   times                   how many numbers it computes for itself from the number of a step:
///                           times_at(t) gives those of step t. In the course of a run they come
///                           to 1 and stay there,
///   step(w, g, s, u)        one update of weight w with gradient g = d cost / d w (mean over the
///                           batch) and state s[0..slots). Another argument may replace how it
///                           divides and takes roots, by other ways to the same bits,
///   parameters()            as kernels/parameter.h says, where it has any.
/// A rule that does not idle alike may say from when on idle steps leave weights as they are, so
/// that a row that lagged far behind need not go through all of them
/// (docs/developer/decisions/0005):
///   idle_bound(s, u, left)  no step without gradient and regularisation among the `left` after the
///                           one with settings u, which left state s, moves a weight by more than
///                           this, while rates do not rise,
///   idle(s)                 what such a step makes of the state.
/// A step without gradient and regularisation on state that is all zero changes nothing once it has
/// been done before. Formulas: docs/user/numerics.md. To add one: write its struct and list it in
/// UpdateRule; what is missing does not compile, and what is wrong fails
/// tests/kernels/traits_test.cpp.
namespace norn {

/// Numbers that a rule may compute for itself from a step's number.
inline constexpr int kMostTimes = 2;

/// What a step has besides the gradient.
struct UpdateStep {
  float rate = 0.0f;                       ///< alpha, after all that changes it
  float l2 = 0.0f;                         ///< lambda: L2 regularisation; 0 for biases
  float l1 = 0.0f;                         ///< lambda1: L1 regularisation; 0 for biases
  float times[kMostTimes] = {1.0f, 1.0f};  ///< the rule's own times_at(); those beyond them are 1
  /// Whoever makes a step with a gradient first holds its elements within +-clip; 0: as they are.
  float clip = 0.0f;
};

inline constexpr ParameterKey kMu{
    .name = "Mu",
    .help = "Momentum of the rule, or its decay of averages; beta1 of Adam and its kin.",
    .limits = {.low = 0, .high = 1, .below_high = true}};
inline constexpr ParameterKey kMu1{.name = "Mu1",
                                   .help = "beta2 of Adam and its kin.",
                                   .limits = {.low = 0, .high = 1, .below_high = true}};

/// g held within +-clip, clip > 0. What is not a number stays so.
NORN_HD inline float clipped(float g, float clip) {
  return g > clip ? clip : (g < -clip ? -clip : g);
}

/// How rules divide and take square roots: rounded correctly.
struct RuleMaths {
  NORN_HD static float divide(float a, float b) { return a / b; }
  NORN_HD static float sqrt(float x) { return math::sqrt(x); }
};

NORN_HD inline float sign_of(float w) {
  return w > 0.0f ? 1.0f : (w < 0.0f ? -1.0f : 0.0f);
}

/// g + lambda * w + lambda1 * sign(w).
NORN_HD inline float regularised(float w, float g, const UpdateStep& u) {
  return g + u.l2 * w + u.l1 * sign_of(w);
}

struct Sgd {
  static constexpr std::string_view name = "SGD";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 0;
  static constexpr bool rests_without_gradient = true;
  static constexpr bool idles_alike = true;
  static constexpr int times = 0;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float*, const UpdateStep& u, Maths&& = {}) const {
    w -= u.rate * regularised(w, g, u);
  }
  bool operator==(const Sgd&) const = default;
};

/// Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
struct Momentum {
  static constexpr std::string_view name = "Momentum";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  static constexpr int times = 0;
  float mu = 0.9f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kMu, self.mu);
  }
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& = {}) const {
    s[0] = mu * s[0] - u.rate * regularised(w, g, u);
    w += s[0];
  }
  bool operator==(const Momentum&) const = default;
};

/// Nesterov's momentum in the form of Sutskever, Martens, Dahl, Hinton, ICML 2013.
struct Nesterov {
  static constexpr std::string_view name = "Nesterov";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  static constexpr int times = 0;
  float mu = 0.9f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kMu, self.mu);
  }
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& = {}) const {
    const float before = s[0];
    s[0] = mu * before - u.rate * regularised(w, g, u);
    w += s[0] + mu * (s[0] - before);
  }
  bool operator==(const Nesterov&) const = default;
};

/// Duchi, Hazan, Singer, "Adaptive subgradient methods", JMLR 2011.
struct AdaGrad {
  static constexpr std::string_view name = "AdaGrad";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = true;
  static constexpr bool idles_alike = true;
  static constexpr int times = 0;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    const float h = regularised(w, g, u);
    s[0] += h * h;
    w -= maths.divide(u.rate * h, maths.sqrt(math::max(1e-9f, s[0])));
  }
  bool operator==(const AdaGrad&) const = default;
};

/// Tieleman, Hinton, lecture 6.5 of "Neural networks for machine learning", 2012.
struct RmsProp {
  static constexpr std::string_view name = "RMSProp";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  static constexpr int times = 0;
  float mu = 0.9f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kMu, self.mu);
  }
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    const float h = regularised(w, g, u);
    s[0] = mu * s[0] + (1.0f - mu) * h * h;
    w -= maths.divide(u.rate * h, maths.sqrt(math::max(1e-9f, s[0])));
  }
  bool operator==(const RmsProp&) const = default;
};

/// Zeiler, "ADADELTA: an adaptive learning rate method", 2012. It has no rate.
struct AdaDelta {
  static constexpr std::string_view name = "AdaDelta";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 2;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  static constexpr int times = 0;
  float mu = 0.9f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kMu, self.mu);
  }
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    const float h = regularised(w, g, u);
    s[1] = mu * s[1] + (1.0f - mu) * h * h;
    const float ratio = maths.divide(math::max(1e-9f, s[0]), math::max(1e-9f, s[1]));
    const float change = maths.sqrt(ratio) * h;
    s[0] = mu * s[0] + (1.0f - mu) * change * change;
    w -= change;
  }
  bool operator==(const AdaDelta&) const = default;
};

/// The averages of Adam and its kin: s[0] of gradients, s[1] of their squares.
struct AdamAverages {
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = false;
  static constexpr int times = 2;
  float mu = 0.9f;     ///< beta1
  float mu1 = 0.999f;  ///< beta2
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kMu, self.mu);
    visit(kMu1, self.mu1);
  }
  bool operator==(const AdamAverages&) const = default;

  /// What averages that began at 0 are multiplied by: 1 / (1 - beta^(t + 1)).
  std::array<float, times> times_at(std::int64_t t) const {
    return {float(1.0 / (1.0 - std::pow(double(mu), double(t + 1)))),
            float(1.0 / (1.0 - std::pow(double(mu1), double(t + 1))))};
  }
  NORN_HD void average(float h, float* s) const {
    s[0] = mu * s[0] + (1.0f - mu) * h;
    s[1] = mu1 * s[1] + (1.0f - mu1) * h * h;
  }
  /// The idle_bound() of a rule that divides by the root of at least `least`. It is worked out with
  /// the operations of a step, each of them monotone, from larger operands: |s[0]| and the rate
  /// only fall; so do the times, to 1, but for roundings that the factor 1.001 covers.
  NORN_HD float bound(const float* s, float least, const UpdateStep& u) const {
    const bool falls = mu >= 0.0f && mu < 1.0f && mu1 >= 0.0f && mu1 < 1.0f && least >= 0.0f;
    if (!falls) return HUGE_VALF;
    return (u.rate * 1.001f) * (math::abs(s[0]) * u.times[0]) / (math::sqrt(least) + 1e-8f);
  }
};

/// Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015.
struct Adam : AdamAverages {
  static constexpr std::string_view name = "Adam";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 2;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    average(regularised(w, g, u), s);
    w -= maths.divide(u.rate * (s[0] * u.times[0]), maths.sqrt(s[1] * u.times[1]) + 1e-8f);
  }
  /// s[1] stays at least what mu1^left leaves of it, half of that to be safe, or nothing near the
  /// smallest numbers.
  NORN_HD float idle_bound(const float* s, const UpdateStep& u, std::int64_t left) const {
    if (!(s[1] >= 0.0f)) return HUGE_VALF;
    const float decayed = s[1] * (0.5f * math::pow(mu1, float(left + 1)));
    return bound(s, decayed >= 1e-36f ? decayed : 0.0f, u);
  }
  NORN_HD void idle(float* s) const { average(0.0f, s); }
};

/// Reddi, Kale, Kumar, "On the convergence of Adam and beyond", ICLR 2018: Adam that divides by the
/// largest average of squares so far, s[2]. Averages are corrected as Adam's, which the paper
/// leaves out.
struct AmsGrad : AdamAverages {
  static constexpr std::string_view name = "AMSGrad";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 3;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    average(regularised(w, g, u), s);
    s[2] = math::max(s[2], s[1]);
    w -= maths.divide(u.rate * (s[0] * u.times[0]), maths.sqrt(s[2] * u.times[1]) + 1e-8f);
  }
  /// s[2] never falls.
  NORN_HD float idle_bound(const float* s, const UpdateStep& u, std::int64_t) const {
    return bound(s, s[2], u);
  }
  NORN_HD void idle(float* s) const {
    average(0.0f, s);
    s[2] = math::max(s[2], s[1]);
  }
};

/// Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019: Adam whose L2
/// regularisation takes rate * lambda * w off the weight and stays out of the averages. L1
/// regularisation does not.
struct AdamW : Adam {
  static constexpr std::string_view name = "AdamW";
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    average(g + u.l1 * sign_of(w), s);
    const float decay = u.rate * (u.l2 * w);
    w -= maths.divide(u.rate * (s[0] * u.times[0]), maths.sqrt(s[1] * u.times[1]) + 1e-8f) + decay;
  }
};

using UpdateRule =
    std::variant<Sgd, Momentum, Nesterov, AdaGrad, RmsProp, AdaDelta, Adam, AmsGrad, AdamW>;

/// That a value says all that is asked of an update rule.
template <typename R>
concept RuleValue = std::equality_comparable<R> &&
    requires(const R rule, float w, float* s, const UpdateStep u, std::int64_t t) {
  rule.step(w, w, s, u);
  requires std::same_as<decltype(R::slots), const int>;
  requires std::same_as<decltype(R::rests_without_gradient), const bool>;
  requires std::same_as<decltype(R::idles_alike), const bool>;
  requires std::same_as<decltype(R::times), const int> && R::times <= kMostTimes;
  requires R::times == 0 || requires {
    { rule.times_at(t) } -> std::same_as<std::array<float, std::size_t(R::times)>>;
  };
};
template <typename... R>
consteval bool are_rules(std::variant<R...>*) {
  return (RuleValue<R> && ...);
}
static_assert(are_rules(static_cast<UpdateRule*>(nullptr)));

/// Rules that say from when on idle steps leave weights as they are.
template <typename R>
concept HasIdleBound = requires(const R rule, float* s, const UpdateStep u, std::int64_t left) {
  { rule.idle_bound(s, u, left) } -> std::same_as<float>;
  rule.idle(s);
};

/// The most state arrays that a rule has.
template <typename... R>
consteval int most_slots(std::variant<R...>*) {
  return std::max({R::slots...});
}
inline constexpr int kMostSlots = most_slots(static_cast<UpdateRule*>(nullptr));

/// State arrays that the rule keeps for each weight.
inline int slots_of(const UpdateRule& rule) {
  return std::visit([](const auto& r) { return std::remove_cvref_t<decltype(r)>::slots; }, rule);
}

/// The settings of any step of a run: a function of the step's number, so that steps can be made up
/// for later.
struct UpdateSchedule {
  float rate = 0.025f;
  float decay = 0.0f;  ///< rate / (1 + decay * steps before this one)
  /// In so many steps the rate rises to what it would be otherwise, in equal parts of it.
  std::int64_t warm_up = 0;
  float part = 1.0f;  ///< such a part: 1 / warm_up
  float l2 = 0.0f;
  float l1 = 0.0f;
  float clip = 0.0f;
  void warm_up_in(std::int64_t steps) {
    warm_up = steps;
    part = steps > 0 ? 1.0f / float(steps) : 1.0f;
  }
  /// The rate of step t. Equal on the host and in CUDA kernels; what rules compute for themselves
  /// is not, so kernels take it from tables.
  NORN_HD float rate_at(std::int64_t t) const {
    const float share = t < warm_up ? float(t + 1) * part : 1.0f;
    return float(double(rate) / (1.0 + double(decay) * double(t))) * share;
  }
  /// The settings of step t = 0, 1, 2 ... of a rule.
  template <typename Rule>
  UpdateStep at(const Rule& rule, std::int64_t t) const {
    UpdateStep u;
    u.rate = rate_at(t);
    u.l2 = l2;
    u.l1 = l1;
    u.clip = clip;
    if constexpr (Rule::times > 0) std::ranges::copy(rule.times_at(t), u.times);
    return u;
  }
  UpdateStep at(const UpdateRule& rule, std::int64_t t) const {
    return std::visit([&](const auto& r) { return at(r, t); }, rule);
  }
  bool operator==(const UpdateSchedule&) const = default;
};

}  // namespace norn
