// SPDX-License-Identifier: Apache-2.0
// Two descriptors, key by key.
#include "src/run/descriptor_differences.h"

#include "src/base/text.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/recipe.h"

#include <set>

#include <fmt/format.h>

namespace norn::run {
namespace {

class Comparison {
 public:
  explicit Comparison(bool of_recipe) : of_recipe_(of_recipe) {}

  void compare(const JsonValue& now, const JsonValue& then, const std::string& place) {
    const auto is_part = [](const JsonValue& value) {
      return value.is_object() || value.is_null();
    };
    if (!is_part(now) || !is_part(then)) {
      if (now.line() != then.line())
        all.push_back({place, now, then, setting_of_key(place), false, wish_at(place)});
      return;
    }
    std::set<std::string> names;
    for (const JsonValue* one : {&now, &then})
      for (const auto& member : one->members()) names.insert(member.first);
    for (const std::string& name : names) {
      if (place.empty() && name == "Layers")
        compare_layers(now[name], then[name]);
      else
        compare(now[name], then[name], place.empty() ? name : fmt::format("{}.{}", place, name));
    }
  }

  std::vector<DescriptorDifference> all;

 private:
  std::string wish_at(const std::string& place) const {
    if (!of_recipe_) return "";
    return place == "Name" ? "recipe" : place == "Layers.Hidden.N" ? "hidden" : "";
  }

  void compare_layers(const JsonValue& now, const JsonValue& then) {
    const auto place_of = [](const JsonValue& layer) {
      return "Layers." + layer["Name"].text_or("");
    };
    const auto find = [&](const JsonValue& layers, const JsonValue& wanted) -> const JsonValue* {
      for (const JsonValue& layer : layers.entries())
        if (place_of(layer) == place_of(wanted)) return &layer;
      return nullptr;
    };
    for (const JsonValue& layer : now.entries()) {
      if (const JsonValue* other = find(then, layer))
        compare(layer, *other, place_of(layer));
      else
        all.push_back({place_of(layer), layer, {}, nullptr, true});
    }
    for (const JsonValue& layer : then.entries())
      if (!find(now, layer)) all.push_back({place_of(layer), {}, layer, nullptr, true});
  }

  bool of_recipe_;
};

JsonValue json_of(const NetworkDescriptor& network) {
  return parse_json(to_json(network), "descriptor");
}

std::string in_json(const DescriptorDifference& difference, const JsonValue& value) {
  if (difference.is_layer) return value.is_null() ? "none" : "a layer";
  if (value.is_null()) return "the default";
  return value.is_text() ? fmt::format("\"{}\"", value.text_or("")) : value.line();
}

// As it is given: `shuffle` no, `optimizer` Adam, `rate` 0.025.
std::string as_given(const TrainSetting& setting, const JsonValue& value) {
  if (value.is_null()) {
    const std::string& usual = setting.default_text;  // a value, or words about it
    return usual.empty() || usual.find(' ') != std::string::npos ? "the default" : usual;
  }
  for (const std::string& word : setting.words)
    if (equal_ignoring_case(word, value.text_or(""))) return word;
  if (value.is_text()) return value.text_or("");
  if (setting.words == std::vector<std::string>{"yes", "no"})
    return value.bool_or(false) ? "yes" : "no";
  return value.line();
}

// "sigmoid" of "sigmoid recipe"; other names as they are.
std::string recipe_of(const std::string& name) {
  const std::optional<RecipeKind> kind = recipe_titled(name);
  return kind ? recipe_names()[std::size_t(*kind)] : fmt::format("\"{}\"", name);
}

}  // namespace

std::string DescriptorDifference::in_keys() const {
  return fmt::format("{} is {}, the checkpoint has {}", place, in_json(*this, now),
                     in_json(*this, then));
}

std::string DescriptorDifference::in_settings() const {
  const auto shown = [&](const JsonValue& value) {
    if (setting) return as_given(*setting, value);
    return wish == "recipe" ? recipe_of(value.text_or("")) : in_json(*this, value);
  };
  const std::string what =
      name().empty() ? fmt::format("`network` {}", place) : fmt::format("`{}`", name());
  return fmt::format("{} is {}, the checkpoint has {}", what, shown(now), shown(then));
}

std::vector<DescriptorDifference> descriptor_differences(const NetworkDescriptor& now,
                                                         const NetworkDescriptor& then) {
  Comparison comparison(recipe_titled(now.name).has_value());
  comparison.compare(json_of(now), json_of(then), "");
  return comparison.all;
}

}  // namespace norn::run
