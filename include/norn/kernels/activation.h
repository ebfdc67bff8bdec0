// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/math.h"

#include <array>
#include <string_view>
#include <variant>

/// Output functions of units. Each is a small value type with
///   name, aliases   the words of JSON "Activation" (matched without regard to case),
///   value(z)        y = f(z),
///   slope(y)        f'(z) written in terms of the output y, so that z need not be kept.
/// To add one: write its struct and list it in Activation. Kernels, parser, documents and tests
/// follow. Parameters named slope, alpha or lambda are set from the descriptor's RELUSlope,
/// ELUAlpha and SELULambda.
namespace norn {

struct Linear {
  static constexpr std::string_view name = "Linear";
  static constexpr std::array<std::string_view, 0> aliases{};
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
  float relu_slope = 0.01f;
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
  float alpha = 1.0f;
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
  float alpha = 1.67326324f;
  float lambda = 1.05070099f;
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

/// Functions of one unit. SoftMax is a function of a whole row and has kernels of its own.
using Activation =
    std::variant<Linear, Sigmoid, Tanh, Relu, LeakyRelu, Elu, Selu, SoftPlus, SoftSign>;

/// e^z_j / sum_k e^z_k over a layer's units.
struct SoftMax {
  static constexpr std::string_view name = "SoftMax";
  static constexpr std::array<std::string_view, 0> aliases{};
};

}  // namespace norn
