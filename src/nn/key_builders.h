// SPDX-License-Identifier: Apache-2.0
// Short ways to write the entries of the table of keys. `access` is a generic lambda that names the
// member of a draft: [](auto& d) -> auto& { return d.network.decay; }.
#pragma once

#include "kernels/named_variant.h"
#include "src/nn/key.h"

#include <type_traits>
#include <utility>

namespace norn::keys {

/// A float as the shortest decimal number that reads back to it.
Json::Value json_of(float value);
inline Json::Value json_of(double value) {
  return value;
}
inline Json::Value json_of(bool value) {
  return value;
}
inline Json::Value json_of(int value) {
  return value;
}
inline Json::Value json_of(Index value) {
  return Json::Value::Int64(value);
}
inline Json::Value json_of(std::uint64_t value) {
  return Json::Value::UInt64(value);
}
inline Json::Value json_of(const std::string& value) {
  return value;
}
template <typename T>
Json::Value json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : Json::Value();
}

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <typename T>
T from_json(const Json::Value& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value.isBool() ? value.asBool() : value.asInt() != 0;
  if constexpr (is_optional<T>) return from_json<typename T::value_type>(value);
  if constexpr (std::is_same_v<T, float>) return float(value.asDouble());
  if constexpr (std::is_same_v<T, double>) return value.asDouble();
  if constexpr (std::is_same_v<T, std::uint64_t>) return value.asUInt64();
  if constexpr (std::is_same_v<T, int> || std::is_same_v<T, Index>) return T(value.asInt64());
  if constexpr (std::is_same_v<T, std::string>) return value.asString();
}

template <typename Access>
Key plain_key(ValueType type, std::string name, Access access, std::string help) {
  using T = std::remove_cvref_t<decltype(access(std::declval<Draft&>()))>;
  Key key;
  key.name = std::move(name);
  key.type = type;
  key.help = std::move(help);
  key.set = [access](Draft& d, const Json::Value& v) { access(d) = from_json<T>(v); };
  key.get = [access](const Draft& d) { return json_of(access(d)); };
  return key;
}

template <typename Access>
Key text_key(std::string name, Access access, std::string help) {
  return plain_key(ValueType::text, std::move(name), access, std::move(help));
}
template <typename Access>
Key boolean_key(std::string name, Access access, std::string help) {
  return plain_key(ValueType::boolean, std::move(name), access, std::move(help));
}
template <typename Access>
Key number_key(std::string name, Access access, Limits limits, std::string help) {
  Key key = plain_key(ValueType::number, std::move(name), access, std::move(help));
  key.limits = limits;
  return key;
}
template <typename Access>
Key integer_key(std::string name, Access access, Limits limits, std::string help) {
  Key key = plain_key(ValueType::integer, std::move(name), access, std::move(help));
  key.limits = limits;
  return key;
}

template <typename E>
struct EnumWord {
  const char* name;
  E value;
};

template <typename E, typename Access>
Key enum_key(std::string name, std::vector<EnumWord<E>> values, Access access, std::string help) {
  Key key;
  key.name = std::move(name);
  key.type = ValueType::word;
  key.help = std::move(help);
  for (const auto& value : values) key.words.push_back({value.name, {}, {}, {}, true});
  key.set = [values, access](Draft& d, const Json::Value& v) {
    for (const auto& value : values)
      if (v.asString() == value.name) access(d) = value.value;
  };
  key.get = [values, access](const Draft& d) {
    for (const auto& value : values)
      if (access(d) == value.value) return Json::Value(value.name);
    return Json::Value();
  };
  return key;
}

/// The words of a variant of maths values, with their aliases.
template <typename Variant>
std::vector<Word> words_of() {
  std::vector<Word> words;
  for (const std::string& name : names_of<Variant>()) {
    Word word{name, {}, {}, {}, true};
    for (const std::string& alias : names_of<Variant>(true))
      if (!equal_ignoring_case(alias, name) && name_of(*find_named<Variant>(alias)) == name)
        word.aliases.push_back({alias, {}});
    words.push_back(std::move(word));
  }
  return words;
}

template <typename Variant, typename Access>
Key variant_key(std::string name, Access access, std::string help) {
  Key key;
  key.name = std::move(name);
  key.type = ValueType::word;
  key.help = std::move(help);
  key.words = words_of<Variant>();
  key.set = [access](Draft& d, const Json::Value& v) {
    access(d) = *find_named<Variant>(v.asString());
  };
  key.get = [access](const Draft& d) { return Json::Value(std::string(name_of(access(d)))); };
  return key;
}

/// Says something about the spelling `alias` of one of the key's words when it is met.
void remark_on_alias(Key& key, const std::string& alias, const std::string& note);

/// A parameter of a value that is `given` by its name and read when the value is known; it is
/// written when `changed` from the value's default.
template <typename Given, typename Changed>
Key parameter_key(const ParameterKey& parameter, Given given, Changed changed) {
  Key key;
  key.name = parameter.name;
  key.type = ValueType::number;
  key.help = parameter.help;
  key.limits = parameter.limits;
  if (!parameter.alias.empty()) key.aliases = {{std::string(parameter.alias), {}}};
  key.set = [given, name = key.name](Draft& d, const Json::Value& v) {
    given(d)[name] = from_json<float>(v);
  };
  key.get = [changed, name = key.name](const Draft& d) { return json_of(changed(d, name)); };
  return key;
}

inline Key object_key(std::string name, std::vector<Key> members, std::string help) {
  Key key;
  key.name = std::move(name);
  key.type = ValueType::object;
  key.help = std::move(help);
  key.members = std::move(members);
  return key;
}

inline Key refused_key(std::string name, std::string refusal) {
  Key key;
  key.name = std::move(name);
  key.refusal = std::move(refusal);
  return key;
}

inline Key with_aliases(Key key, std::vector<Spelling> aliases) {
  key.aliases = std::move(aliases);
  return key;
}
inline Key for_kinds(Key key, unsigned kinds) {
  key.kinds = kinds;
  return key;
}
inline Key by_default(Key key, std::string text) {
  key.default_text = std::move(text);
  return key;
}
inline Key always(Key key) {
  key.always_written = true;
  return key;
}

inline Limits at_least(double low) {
  return {.low = low};
}
inline Limits above(double low) {
  return {.low = low, .above_low = true};
}
inline Limits from_to(double low, double high) {
  return {.low = low, .high = high};
}
inline Limits from_to_below(double low, double high) {
  return {.low = low, .high = high, .below_high = true};
}

/// The largest number of units: what a 32-bit column number can name.
inline constexpr double kMostUnits = 4294967295.0;

}  // namespace norn::keys
