// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/base/text.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Looks up the alternatives of a variant of maths values by the names that they carry.
namespace norn {

/// The names of all alternatives, in order, with or without their aliases.
template <typename Variant>
std::vector<std::string> names_of(bool with_aliases = false) {
  std::vector<std::string> names;
  const auto add = [&]<typename Alternative>(std::in_place_type_t<Alternative>) {
    names.emplace_back(Alternative::name);
    if (!with_aliases) return;
    for (std::string_view alias : Alternative::aliases) names.emplace_back(alias);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (add(std::in_place_type<std::variant_alternative_t<I, Variant>>), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  return names;
}

/// The alternative of that name or alias (case is ignored), default-constructed; nothing when there
/// is none.
template <typename Variant>
std::optional<Variant> find_named(std::string_view word) {
  std::optional<Variant> found;
  const auto try_one = [&]<typename Alternative>(std::in_place_type_t<Alternative>) {
    bool match = equal_ignoring_case(word, Alternative::name);
    for (std::string_view alias : Alternative::aliases)
      match = match || equal_ignoring_case(word, alias);
    if (match) found = Variant(Alternative{});
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (try_one(std::in_place_type<std::variant_alternative_t<I, Variant>>), ...);
  }
  (std::make_index_sequence<std::variant_size_v<Variant>>());
  return found;
}

template <typename... Alternatives>
std::string_view name_of(const std::variant<Alternatives...>& value) {
  return std::visit([](const auto& v) { return std::remove_cvref_t<decltype(v)>::name; }, value);
}

}  // namespace norn
