// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/math.h"
#include "kernels/parameter.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <variant>

/// Output functions of units. Each is a small value type with
///   name, aliases       the words of JSON "Activation" (matched without regard to case),
///   value(z)            y = f(z),
///   slope(x)            f'(z) written in terms of x: of y where slope_from says so, so that z need
///                       not be kept, else of z,
///   slope_follows_sign  whether slope(y) depends on the sign of y alone,
///   flat_at_zero        of those: whether slope(0) is 0, whatever the parameters,
///   searched_by_z       whether the best units of a layer may be searched by pre-activation:
///                       y never falls where z rises, but for rounding, whatever the parameters,
///   dropout             which kind suits it; for alpha dropout left_out(), what a unit becomes,
///   has_cost_kernels    whether a GPU has kernels of its own for outputs with a loss that
///                       says the same, rather than one for all,
///   model_number        its number in model files: DSSTNE's, else one that nobody has,
///   parameters()        as kernels/parameter.h says, where it has any.
/// To add one: write its struct and list it in Activation; what is missing does not compile, and
/// what is wrong fails tests/kernels/traits_test.cpp. Kernels, parser, model files and documents
/// follow.
namespace norn {

/// What a slope is written in.
enum class SlopeFrom { y, z };

/// Inverted: a unit that is left out becomes 0, the others grow. Alpha: it becomes left_out(), and
/// all are scaled and shifted so that mean and variance stay.
enum class DropoutKind { inverted, alpha };

inline constexpr ParameterKey kReluSlope{.name = "RELUSlope",
                                         .help = "Slope of LRelu below zero.",
                                         .limits = {.low = 0},
                                         .alias = "Slope",
                                         .item = ModelItem{"RELUSlope", 1.0}};
inline constexpr ParameterKey kEluAlpha{.name = "ELUAlpha",
                                        .help = "Alpha of ELU and of SELU.",
                                        .limits = {.low = 0},
                                        .item = ModelItem{"ELUAlpha", 1.0}};
inline constexpr ParameterKey kSeluLambda{.name = "SELULambda",
                                          .help = "Lambda of SELU.",
                                          .limits = {.low = 0, .above_low = true},
                                          .item = ModelItem{"SELULambda", 1.050701}};

/// A sigmoid unit from one exponential, each part exact where the others round to 0 or 1.
template <typename T>
struct SigmoidParts {
  NORN_HD explicit SigmoidParts(T z) {
    const T e = math::exp_nonpositive(-math::abs(z));
    const T larger = math::reciprocal_unit(T(1) + e);
    const T smaller = e * larger;
    y = z < T(0) ? smaller : larger;
    rest = z < T(0) ? larger : smaller;
    log_term = math::log1p_unit(e);
  }
  T y;         ///< 1 / (1 + e^-z)
  T rest;      ///< 1 - y
  T log_term;  ///< -ln y = max(-z, 0) + log_term, -ln(1 - y) = max(z, 0) + log_term
};

struct Linear {
  static constexpr std::string_view name = "Linear";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = true;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = true;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 3;
  template <typename T>
  NORN_HD T value(T z) const {
    return z;
  }
  template <typename T>
  NORN_HD T slope(T) const {
    return T(1);
  }
};

struct Sigmoid {
  static constexpr std::string_view name = "Sigmoid";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = true;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 0;
  template <typename T>
  NORN_HD T value(T z) const {
    return T(1) / (T(1) + math::exp(-z));
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    return y * (T(1) - y);
  }
};

struct Tanh {
  static constexpr std::string_view name = "Tanh";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = true;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 1;
  template <typename T>
  NORN_HD T value(T z) const {
    return math::tanh(z);
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    return T(1) - y * y;
  }
};

struct Relu {
  static constexpr std::string_view name = "Relu";
  static constexpr std::array<std::string_view, 1> aliases{"RectifiedLinear"};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = true;
  static constexpr bool flat_at_zero = true;
  static constexpr bool searched_by_z = true;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = true;
  static constexpr std::uint32_t model_number = 2;
  template <typename T>
  NORN_HD T value(T z) const {
    return z < T(0) ? T(0) : z;  // in this order NaN is handed on
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    return y > T(0) ? T(1) : T(0);
  }
};

/// max(z, slope * z). PRelu is accepted as another name: DSSTNE's documents promise it, its slope
/// is not learned here.
struct LeakyRelu {
  static constexpr std::string_view name = "LRelu";
  static constexpr std::array<std::string_view, 4> aliases{"LeakyRectifiedLinear", "LeakyRelu",
                                                           "PRelu", "ParametricRectifiedLinear"};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = true;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = false;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 11;
  float relu_slope = 0.01f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kReluSlope, self.relu_slope);
  }
  template <typename T>
  NORN_HD T value(T z) const {
    return z > T(0) ? z : T(relu_slope) * z;
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    return y > T(0) ? T(1) : T(relu_slope);
  }
};

struct Elu {
  static constexpr std::string_view name = "ELU";
  static constexpr std::array<std::string_view, 1> aliases{"ExponentialLinear"};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = false;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 10;
  float alpha = 1.0f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kEluAlpha, self.alpha);
  }
  template <typename T>
  NORN_HD T value(T z) const {
    return z > T(0) ? z : T(alpha) * math::expm1(z);
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    return y > T(0) ? T(1) : y + T(alpha);
  }
};

/// Klambauer, Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks", NIPS 2017.
struct Selu {
  static constexpr std::string_view name = "SELU";
  static constexpr std::array<std::string_view, 1> aliases{"ScaledExponentialLinear"};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = false;
  static constexpr DropoutKind dropout = DropoutKind::alpha;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 12;
  float alpha = 1.67326324f;
  float lambda = 1.05070099f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kEluAlpha, self.alpha);
    visit(kSeluLambda, self.lambda);
  }
  float left_out() const { return -lambda * alpha; }
  template <typename T>
  NORN_HD T value(T z) const {
    return z > T(0) ? T(lambda) * z : T(lambda) * T(alpha) * math::expm1(z);
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    return y > T(0) ? T(lambda) : y + T(lambda) * T(alpha);
  }
};

struct SoftPlus {
  static constexpr std::string_view name = "SoftPlus";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = true;
  static constexpr bool searched_by_z = false;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 5;
  template <typename T>
  NORN_HD T value(T z) const {
    return math::softplus(z);
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    return -math::expm1(-y);
  }
};

struct SoftSign {
  static constexpr std::string_view name = "SoftSign";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr SlopeFrom slope_from = SlopeFrom::y;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = false;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 6;
  template <typename T>
  NORN_HD T value(T z) const {
    return z / (T(1) + math::abs(z));
  }
  template <typename T>
  NORN_HD T slope(T y) const {
    const T rest = T(1) - math::abs(y);
    return rest * rest;
  }
};

/// Hendrycks, Gimpel, "Gaussian error linear units (GELUs)", 2016: z times the part of a standard
/// normal distribution below z. The exact one, not its approximation by tanh.
struct Gelu {
  static constexpr std::string_view name = "GELU";
  static constexpr std::array<std::string_view, 1> aliases{"GaussianErrorLinear"};
  static constexpr SlopeFrom slope_from = SlopeFrom::z;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = false;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 13;
  template <typename T>
  NORN_HD T value(T z) const {
    return z * math::normal_below(z);
  }
  template <typename T>
  NORN_HD T slope(T z) const {
    const T near = math::min(T(14), math::max(T(-14), z));  // beyond, the density is 0
    const T density = T(0.398942280401432678) * math::exp_nonpositive(T(-0.5) * near * near);
    return math::normal_below(z) + near * density;
  }
};

inline constexpr ParameterKey kSwishBeta{
    .name = "SwishBeta", .help = "Beta of Swish.", .limits = {.low = 0}};

/// z / (1 + e^(-beta z)). Ramachandran, Zoph, Le, "Searching for activation functions", 2017; with
/// beta 1 the SiLU of Hendrycks, Gimpel, 2016, and Elfwing, Uchibe, Doya, Neural Networks 107,
/// 2018.
struct Swish {
  static constexpr std::string_view name = "Swish";
  static constexpr std::array<std::string_view, 2> aliases{"SiLU", "SigmoidLinear"};
  static constexpr SlopeFrom slope_from = SlopeFrom::z;
  static constexpr bool slope_follows_sign = false;
  static constexpr bool flat_at_zero = false;
  static constexpr bool searched_by_z = false;
  static constexpr DropoutKind dropout = DropoutKind::inverted;
  static constexpr bool has_cost_kernels = false;
  static constexpr std::uint32_t model_number = 14;
  float beta = 1.0f;
  template <typename Self, typename Visit>
  static void parameters(Self& self, const Visit& visit) {
    visit(kSwishBeta, self.beta);
  }
  template <typename T>
  NORN_HD T value(T z) const {
    return z * SigmoidParts<T>(T(beta) * z).y;
  }
  template <typename T>
  NORN_HD T slope(T z) const {
    // Beyond 90 the sigmoid is flat.
    const T x = math::min(T(90), math::max(T(-90), T(beta) * z));
    const SigmoidParts<T> sigmoid(x);
    return sigmoid.y * (T(1) + x * sigmoid.rest);
  }
};

/// Functions of one unit. SoftMax is a function of a whole row and has kernels of its own.
using Activation = std::variant<Linear, Sigmoid, Tanh, Relu, LeakyRelu, Elu, Selu, SoftPlus,
                                SoftSign, Gelu, Swish>;

/// e^z_j / sum_k e^z_k over a layer's units.
struct SoftMax {
  static constexpr std::string_view name = "SoftMax";
  static constexpr std::array<std::string_view, 0> aliases{};
  static constexpr std::uint32_t model_number = 7;
};

/// That a value says all that is asked of an activation.
template <typename F>
concept ActivationValue = requires(const F f, float x, double exact) {
  { f.value(x) } -> std::same_as<float>;
  { f.slope(exact) } -> std::same_as<double>;
  requires std::same_as<decltype(F::slope_from), const SlopeFrom>;
  requires std::same_as<decltype(F::slope_follows_sign), const bool>;
  requires std::same_as<decltype(F::flat_at_zero), const bool>;
  requires std::same_as<decltype(F::searched_by_z), const bool>;
  requires std::same_as<decltype(F::has_cost_kernels), const bool>;
  requires std::same_as<decltype(F::model_number), const std::uint32_t>;
  requires F::dropout == DropoutKind::inverted || requires {
    f.left_out();
  };
};
template <typename... F>
consteval bool are_activations(std::variant<F...>*) {
  return (ActivationValue<F> && ...);
}
static_assert(are_activations(static_cast<Activation*>(nullptr)));

/// f' where both z and y = f(z) are at hand.
template <typename F, typename T>
NORN_HD T slope_at(const F& f, T z, T y) {
  if constexpr (F::slope_from == SlopeFrom::z)
    return f.slope(z);
  else
    return f.slope(y);
}

inline SlopeFrom slope_from(const Activation& activation) {
  return std::visit([](const auto& f) { return f.slope_from; }, activation);
}

}  // namespace norn
