// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Parameters of maths values (activations, losses, update rules). A value names each of them once,
///   template <typename Self, typename Visit>
///   static void parameters(Self& self, const Visit& visit) { visit(kEluAlpha, self.alpha); }
/// and the descriptor's keys, schema, documents and remarks, and the items of model files follow.
namespace norn {

/// Where a parameter's values may lie.
struct ParameterLimits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   ///< low itself is out of range
  bool below_high = false;  ///< high itself is out of range
};

/// An item of DSSTNE's model files.
struct ModelItem {
  std::string_view name;
  double otherwise;  ///< what DSSTNE reads where the item is missing
};

/// What a parameter is called. Values that have the same one share this; their defaults may differ.
struct ParameterKey {
  std::string_view name;  ///< JSON
  std::string_view help;  ///< one sentence
  ParameterLimits limits;
  std::string_view alias{};            ///< another spelling
  std::string_view object{};           ///< of a loss: the JSON object that it is a member of
  std::optional<ModelItem> item = {};  ///< where DSSTNE has it; ours is in the descriptor anyway
};

/// Calls visit(key, parameter) for the parameters of a value.
template <typename Value, typename Visit>
void visit_parameters(Value& value, const Visit& visit) {
  if constexpr (requires { value.parameters(value, visit); }) value.parameters(value, visit);
}
template <typename... Alternatives, typename Visit>
void visit_parameters(std::variant<Alternatives...>& value, const Visit& visit) {
  std::visit([&](auto& held) { visit_parameters(held, visit); }, value);
}
template <typename... Alternatives, typename Visit>
void visit_parameters(const std::variant<Alternatives...>& value, const Visit& visit) {
  std::visit([&](const auto& held) { visit_parameters(held, visit); }, value);
}

/// A parameter of several values of a variant.
struct SharedParameter {
  const ParameterKey* key;
  std::vector<std::pair<std::string_view, float>> defaults;  ///< a value's name, its default

  /// `0.9`, or where they differ `1 (ELU), 1.67326 (SELU)`.
  std::string default_text() const;
};

/// All parameters of a variant's alternatives, each once, in the order in which they come.
template <typename Variant>
std::vector<SharedParameter> parameters_of() {
  std::vector<SharedParameter> all;
  const auto add = [&]<typename Value>(std::in_place_type_t<Value>) {
    const Value value{};
    visit_parameters(value, [&](const ParameterKey& key, float standard) {
      for (SharedParameter& known : all)
        if (known.key->name == key.name) {
          known.defaults.emplace_back(Value::name, standard);
          return;
        }
      all.push_back({&key, {{Value::name, standard}}});
    });
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (add(std::in_place_type<std::variant_alternative_t<I, Variant>>), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  return all;
}

/// The parameter of that name, where the value has one.
template <typename Value>
std::optional<float> parameter_of(const Value& value, std::string_view name) {
  std::optional<float> found;
  visit_parameters(value, [&](const ParameterKey& key, float parameter) {
    if (key.name == name) found = parameter;
  });
  return found;
}

/// The same, unless it is the default of the alternative that is held.
template <typename... Alternatives>
std::optional<float> changed_parameter(const std::variant<Alternatives...>& value,
                                       std::string_view name) {
  return std::visit(
      [&](const auto& held) {
        const std::optional<float> parameter = parameter_of(held, name);
        const std::remove_cvref_t<decltype(held)> standard{};
        return parameter == parameter_of(standard, name) ? std::nullopt : parameter;
      },
      value);
}

/// Sets the parameter of that name. Returns whether the value has one.
template <typename Value>
bool set_parameter(Value& value, std::string_view name, float to) {
  bool found = false;
  visit_parameters(value, [&](const ParameterKey& key, float& parameter) {
    if (key.name != name) return;
    parameter = to;
    found = true;
  });
  return found;
}

}  // namespace norn
