// SPDX-License-Identifier: Apache-2.0
// DSSTNE's numbers for losses, activations and initialisers.
#include "src/engine/model/model_numbers.h"

#include "norn/base/error.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace norn {
namespace {

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

// The alternative of that number, default-constructed.
template <typename Variant>
std::optional<Variant> of_number(std::int64_t number) {
  std::optional<Variant> found;
  const auto try_one = [&]<typename Value>(std::in_place_type_t<Value>) {
    if (Value::model_number == number) found = Variant(Value{});
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (try_one(std::in_place_type<std::variant_alternative_t<I, Variant>>), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  return found;
}

template <typename... Values>
constexpr std::uint32_t highest_number(const std::variant<Values...>*) {
  return std::max({Values::model_number...});
}

template <typename Variant>
std::uint32_t number_of(const Variant& variant) {
  return std::visit([](const auto& value) { return value.model_number; }, variant);
}

}  // namespace

std::uint32_t loss_number(const Loss& loss) {
  return number_of(loss);
}

Loss loss_of_number(std::int64_t number, const std::string& where) {
  if (const auto loss = of_number<Loss>(number)) return *loss;
  throw DataError(fmt::format("{}: errorFunction {} is unknown; expected 0 to {}", where, number,
                              highest_number(static_cast<Loss*>(nullptr))));
}

std::uint32_t activation_number(const LayerActivation& activation) {
  const Activation* pointwise = std::get_if<Activation>(&activation);
  return pointwise ? number_of(*pointwise) : SoftMax::model_number;
}

LayerActivation activation_of_number(std::int64_t number, const std::string& where) {
  if (number == SoftMax::model_number) return SoftMax{};
  if (number == 5 || number == 6 || number == 8 || number == 9) return Activation(Linear{});
  if (const auto activation = of_number<Activation>(number)) return *activation;
  throw DataError(fmt::format("{}: activation {} is unknown; expected 0 to {} without 4", where,
                              number, highest_number(static_cast<Activation*>(nullptr))));
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
