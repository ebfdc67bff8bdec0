// SPDX-License-Identifier: Apache-2.0
// DSSTNE's numbers for losses, activations and initialisers.
#include "src/engine/model_numbers.h"

#include "norn/base/error.h"

#include <array>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

// In the order of Loss: L1, L2, L2Hinge, Hinge, CrossEntropy, SMCE, DSMCE.
constexpr std::array<std::uint32_t, 7> kLossNumbers = {0, 1, 6, 5, 2, 3, 4};
static_assert(std::variant_size_v<Loss> == kLossNumbers.size(),
              "a new loss needs a number in model files");

// In the order of Activation: Linear, Sigmoid, Tanh, Relu, LeakyRelu, Elu, Selu, SoftPlus,
// SoftSign.
constexpr std::array<std::uint32_t, 9> kActivationNumbers = {3, 0, 1, 2, 11, 10, 12, 5, 6};
static_assert(std::variant_size_v<Activation> == kActivationNumbers.size(),
              "a new activation needs a number in model files");
constexpr std::uint32_t kSoftMaxNumber = 7;

// The alternative of that index, default-constructed.
template <typename Variant>
Variant alternative(std::size_t index) {
  Variant value;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == index ? void(value = Variant(std::in_place_index<I>)) : void()), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  return value;
}

}  // namespace

std::uint32_t loss_number(const Loss& loss) {
  return kLossNumbers[loss.index()];
}

Loss loss_of_number(std::int64_t number, const std::string& where) {
  for (std::size_t i = 0; i < kLossNumbers.size(); ++i)
    if (kLossNumbers[i] == number) return alternative<Loss>(i);
  throw DataError(fmt::format("{}: errorFunction {} is unknown; expected 0 to 6", where, number));
}

std::uint32_t activation_number(const LayerActivation& activation) {
  const Activation* pointwise = std::get_if<Activation>(&activation);
  return pointwise ? kActivationNumbers[pointwise->index()] : kSoftMaxNumber;
}

LayerActivation activation_of_number(std::int64_t number, const std::string& where) {
  if (number == kSoftMaxNumber) return SoftMax{};
  if (number == 5 || number == 6 || number == 8 || number == 9) return Activation(Linear{});
  for (std::size_t i = 0; i < kActivationNumbers.size(); ++i)
    if (kActivationNumbers[i] == number) return alternative<Activation>(i);
  throw DataError(
      fmt::format("{}: activation {} is unknown; expected 0 to 12 without 4", where, number));
}

Initializer initializer_of_number(std::int64_t number, float scale, const std::string& where) {
  if (number < 0 || number >= std::int64_t(std::variant_size_v<Initializer>))
    throw DataError(fmt::format("{}: weightInit {} is unknown; expected 0 to 6", where, number));
  Initializer initializer = alternative<Initializer>(std::size_t(number));
  std::visit([&](auto& scheme) { scheme.scale = scale; }, initializer);
  return initializer;
}

float initializer_scale(const Initializer& initializer) {
  return std::visit([](const auto& scheme) { return scheme.scale; }, initializer);
}

}  // namespace norn
