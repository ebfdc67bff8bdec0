// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/math.h"
#include "src/base/philox.h"

#include <array>
#include <string_view>
#include <variant>

/// Initial weights. Each is a small value type with
///   name, aliases     the words of JSON "WeightInit": {"Scheme"} (matched without regard to case),
///   value(fan, w)     the weight from the numbers of input and output units and two random words.
/// A weight depends on (seed, weight matrix, its position in the whole matrix) only, so every rank
/// draws its own part.
namespace norn {

struct Fan {
  double in = 1;
  double out = 1;
};

namespace initial {
/// Uniform in (-1, 1).
NORN_HD inline double symmetric(std::uint32_t word) {
  return (double(word) + 0.5) * 0x1p-31 - 1.0;
}
/// Standard normal by Box and Muller.
NORN_HD inline double normal(std::uint32_t a, std::uint32_t b) {
  const double radius = std::sqrt(-2.0 * std::log((double(a) + 0.5) * 0x1p-32));
  return radius * std::cos(6.283185307179586 * (double(b) + 0.5) * 0x1p-32);
}
}  // namespace initial

/// Uniform in +-scale * sqrt(6 / (in + out)): Glorot, Bengio, AISTATS 2010.
struct Xavier {
  static constexpr std::string_view name = "Xavier";
  static constexpr std::array<std::string_view, 0> aliases{};
  float scale = 1.0f;
  NORN_HD float value(const Fan& fan, std::uint32_t a, std::uint32_t) const {
    return float(scale * std::sqrt(6.0 / (fan.in + fan.out)) * initial::symmetric(a));
  }
};

/// Uniform in +-scale * sqrt(3 / out).
struct CaffeXavier {
  static constexpr std::string_view name = "CaffeXavier";
  static constexpr std::array<std::string_view, 0> aliases{};
  float scale = 1.0f;
  NORN_HD float value(const Fan& fan, std::uint32_t a, std::uint32_t) const {
    return float(scale * std::sqrt(3.0 / fan.out) * initial::symmetric(a));
  }
};

/// Normal with standard deviation scale.
struct Gaussian {
  static constexpr std::string_view name = "Gaussian";
  static constexpr std::array<std::string_view, 0> aliases{};
  float scale = 1.0f;
  NORN_HD float value(const Fan&, std::uint32_t a, std::uint32_t b) const {
    return float(scale * initial::normal(a, b));
  }
};

/// Uniform in +-scale.
struct UniformInit {
  static constexpr std::string_view name = "Uniform";
  static constexpr std::array<std::string_view, 0> aliases{};
  float scale = 1.0f;
  NORN_HD float value(const Fan&, std::uint32_t a, std::uint32_t) const {
    return float(scale * initial::symmetric(a));
  }
};

/// Uniform in (0, scale].
struct UnitBall {
  static constexpr std::string_view name = "UnitBall";
  static constexpr std::array<std::string_view, 0> aliases{};
  float scale = 1.0f;
  NORN_HD float value(const Fan&, std::uint32_t a, std::uint32_t) const {
    return float(scale * (double(a) + 1.0) * 0x1p-32);
  }
};

struct Constant {
  static constexpr std::string_view name = "Constant";
  static constexpr std::array<std::string_view, 0> aliases{};
  float scale = 1.0f;
  NORN_HD float value(const Fan&, std::uint32_t, std::uint32_t) const { return scale; }
};

/// Normal with standard deviation 1 / sqrt(in), what SELU needs; Scale has no effect, as in DSSTNE.
struct SeluInit {
  static constexpr std::string_view name = "SELU";
  static constexpr std::array<std::string_view, 0> aliases{};
  float scale = 1.0f;
  NORN_HD float value(const Fan& fan, std::uint32_t a, std::uint32_t b) const {
    return float(initial::normal(a, b) / std::sqrt(fan.in));
  }
};

/// In the order of DSSTNE's numbers in model files.
using Initializer =
    std::variant<Xavier, CaffeXavier, Gaussian, UniformInit, UnitBall, Constant, SeluInit>;

}  // namespace norn
