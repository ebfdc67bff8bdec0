// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/math.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

/// Weight update rules. Each is a small value type with
///   name, aliases           the words of JSON "Optimizer" and of --optimizer (matched without
///                           regard to case),
///   slots                   how many state arrays of the weight's shape it keeps, zero at the
///   start, rests_without_gradient  whether a step without gradient and regularisation changes
///   nothing, idles_alike             whether such steps do the same whatever their rate and
///   number, so that
///                           after one that changes nothing all the others change nothing either,
///   step(w, g, s, u)        one update of weight w with gradient g = d cost / d w (mean over the
///                           batch) and state s[0..slots). Another argument may replace how it
///                           divides and takes roots, by other ways to the same bits.
/// A step without gradient and regularisation on state that is all zero changes nothing once it has
/// been done before. Formulas: docs/numerics.md. To add one: write its struct and list it in
/// UpdateRule.
namespace norn {

/// What a step has besides the gradient.
struct UpdateStep {
  float rate = 0.0f;      ///< alpha, after all that changes it
  float l2 = 0.0f;        ///< lambda: L2 regularisation; 0 for biases
  float l1 = 0.0f;        ///< lambda1: L1 regularisation; 0 for biases
  float correct1 = 1.0f;  ///< Adam: 1 / (1 - beta1^t)
  float correct2 = 1.0f;  ///< Adam: 1 / (1 - beta2^t)
  /// Whoever makes a step with a gradient first holds its elements within +-clip; 0: as they are.
  float clip = 0.0f;
};

/// g held within +-clip, clip > 0. What is not a number stays so.
NORN_HD inline float clipped(float g, float clip) {
  return g > clip ? clip : (g < -clip ? -clip : g);
}

/// How rules divide and take square roots: rounded correctly.
struct RuleMaths {
  NORN_HD static float divide(float a, float b) { return a / b; }
  NORN_HD static float sqrt(float x) { return math::sqrt(x); }
};

/// g + lambda * w + lambda1 * sign(w).
NORN_HD inline float regularised(float w, float g, const UpdateStep& u) {
  const float sign = w > 0.0f ? 1.0f : (w < 0.0f ? -1.0f : 0.0f);
  return g + u.l2 * w + u.l1 * sign;
}

struct Sgd {
  static constexpr std::string_view name = "SGD";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 0;
  static constexpr bool rests_without_gradient = true;
  static constexpr bool idles_alike = true;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float*, const UpdateStep& u, Maths&& = {}) const {
    w -= u.rate * regularised(w, g, u);
  }
};

/// Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
struct Momentum {
  static constexpr std::string_view name = "Momentum";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  float mu = 0.9f;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& = {}) const {
    s[0] = mu * s[0] - u.rate * regularised(w, g, u);
    w += s[0];
  }
};

/// Nesterov's momentum in the form of Sutskever, Martens, Dahl, Hinton, ICML 2013.
struct Nesterov {
  static constexpr std::string_view name = "Nesterov";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  float mu = 0.9f;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& = {}) const {
    const float before = s[0];
    s[0] = mu * before - u.rate * regularised(w, g, u);
    w += s[0] + mu * (s[0] - before);
  }
};

/// Duchi, Hazan, Singer, "Adaptive subgradient methods", JMLR 2011.
struct AdaGrad {
  static constexpr std::string_view name = "AdaGrad";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = true;
  static constexpr bool idles_alike = true;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    const float h = regularised(w, g, u);
    s[0] += h * h;
    w -= maths.divide(u.rate * h, maths.sqrt(math::max(1e-9f, s[0])));
  }
};

/// Tieleman, Hinton, lecture 6.5 of "Neural networks for machine learning", 2012.
struct RmsProp {
  static constexpr std::string_view name = "RMSProp";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 1;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  float mu = 0.9f;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    const float h = regularised(w, g, u);
    s[0] = mu * s[0] + (1.0f - mu) * h * h;
    w -= maths.divide(u.rate * h, maths.sqrt(math::max(1e-9f, s[0])));
  }
};

/// Zeiler, "ADADELTA: an adaptive learning rate method", 2012. It has no rate.
struct AdaDelta {
  static constexpr std::string_view name = "AdaDelta";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 2;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = true;
  float mu = 0.9f;
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    const float h = regularised(w, g, u);
    s[1] = mu * s[1] + (1.0f - mu) * h * h;
    const float ratio = maths.divide(math::max(1e-9f, s[0]), math::max(1e-9f, s[1]));
    const float change = maths.sqrt(ratio) * h;
    s[0] = mu * s[0] + (1.0f - mu) * change * change;
    w -= change;
  }
};

/// Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015.
struct Adam {
  static constexpr std::string_view name = "Adam";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr int slots = 2;
  static constexpr bool rests_without_gradient = false;
  static constexpr bool idles_alike = false;
  float mu = 0.9f;     ///< beta1
  float mu1 = 0.999f;  ///< beta2
  template <class Maths = RuleMaths>
  NORN_HD void step(float& w, float g, float* s, const UpdateStep& u, Maths&& maths = {}) const {
    const float h = regularised(w, g, u);
    s[0] = mu * s[0] + (1.0f - mu) * h;
    s[1] = mu1 * s[1] + (1.0f - mu1) * h * h;
    w -= maths.divide(u.rate * (s[0] * u.correct1), maths.sqrt(s[1] * u.correct2) + 1e-8f);
  }
};

using UpdateRule = std::variant<Sgd, Momentum, Nesterov, AdaGrad, RmsProp, AdaDelta, Adam>;

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
  float beta1 = 0.9f;  ///< Adam's, for its bias corrections
  float beta2 = 0.999f;
  float clip = 0.0f;
  void warm_up_in(std::int64_t steps) {
    warm_up = steps;
    part = steps > 0 ? 1.0f / float(steps) : 1.0f;
  }
  /// The rate of step t. Equal on the host and in CUDA kernels; the corrections' powers are not.
  NORN_HD float rate_at(std::int64_t t) const {
    const float share = t < warm_up ? float(t + 1) * part : 1.0f;
    return float(double(rate) / (1.0 + double(decay) * double(t))) * share;
  }
  /// The settings of step t = 0, 1, 2 ...
  UpdateStep at(std::int64_t t) const {
    UpdateStep u;
    u.rate = rate_at(t);
    u.l2 = l2;
    u.l1 = l1;
    u.clip = clip;
    u.correct1 = float(1.0 / (1.0 - std::pow(double(beta1), double(t + 1))));
    u.correct2 = float(1.0 / (1.0 - std::pow(double(beta2), double(t + 1))));
    return u;
  }
  bool operator==(const UpdateSchedule&) const = default;
};

}  // namespace norn
