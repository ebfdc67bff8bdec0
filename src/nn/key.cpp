// SPDX-License-Identifier: Apache-2.0
// Looking up keys, their defaults, and the values that wait for others.
#include "src/nn/key.h"

#include "norn/base/error.h"
#include "src/base/text.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/key_builders.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace norn::keys {
namespace {

void put(float& member, const std::optional<float>& given) {
  if (given) member = *given;
}

// Gives a value the parameters that were given, as far as it has them.
template <typename Variant>
void settle(Variant& value, const GivenParameters& given) {
  visit_parameters(value, [&](const ParameterKey& key, float& parameter) {
    if (const auto found = given.find(key.name); found != given.end()) parameter = found->second;
  });
}

}  // namespace

Json::Value json_of(float value) {
  if (std::nearbyint(value) == value && std::abs(value) < 1e15f)
    return Json::Value::Int64(std::llround(value));
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

void remark_on_alias(Key& key, const std::string& alias, const std::string& note) {
  for (Word& word : key.words)
    for (Spelling& spelling : word.aliases)
      if (equal_ignoring_case(spelling.name, alias)) spelling.note = note;
}

void Draft::begin_layer(LayerKind kind) {
  layer = {};
  layer.kind = kind;
  layer_activation = {};
  layer_scale = {};
  layer_exponent = {};
  layer_sparseness_p = {};
  layer_sparseness_beta = {};
}

void Draft::finish_layer() {
  if (Activation* f = std::get_if<Activation>(&layer.activation)) {
    settle(*f, activation);
    settle(*f, layer_activation);
  }
  std::visit([&](auto& scheme) { put(scheme.scale, layer_scale); }, layer.init.scheme);
  std::visit(
      [&](auto& scheme) {
        if constexpr (requires { scheme.exponent; }) put(scheme.exponent, layer_exponent);
      },
      layer.input_weighting);
  if (layer_sparseness_p || layer_sparseness_beta)
    layer.sparseness = {layer_sparseness_p.value_or(network.sparseness.p),
                        layer_sparseness_beta.value_or(network.sparseness.beta)};
}

void Draft::finish_network() {
  settle(network.loss, loss);
  settle(network.training.optimizer, rule);
}

const Spelling* alias_of(const Key& key, const std::string& spelling) {
  for (const Spelling& alias : key.aliases)
    if (equal_ignoring_case(alias.name, spelling)) return &alias;
  return nullptr;
}

const Key* find_key(const std::vector<Key>& keys, const std::string& spelling) {
  for (const Key& key : keys)
    if (equal_ignoring_case(key.name, spelling) || alias_of(key, spelling)) return &key;
  return nullptr;
}

Json::Value held_by(const Draft& draft, const Key& key) {
  return key.get ? key.get(draft) : Json::Value();
}

Json::Value default_of(const Key& key) {
  static const Draft standard;
  return held_by(standard, key);
}

Json::Value value_of(const Key& key, const Draft& draft) {
  if (!key.refusal.empty()) return {};
  if (key.type == ValueType::object) {
    Json::Value object;
    for (const Key& member : key.members) {
      Json::Value value = value_of(member, draft);
      if (!value.isNull()) object[member.name] = std::move(value);
    }
    return object;
  }
  Json::Value value = held_by(draft, key);
  return key.always_written || value != default_of(key) ? value : Json::Value();
}

std::string legal_phrase(const Key& key) {
  if (key.kinds == kAllKinds) return "all layers";
  std::vector<std::string> kinds = names_in(kLayerKinds, key.kinds);
  std::string text = kinds.back();
  kinds.pop_back();
  if (!kinds.empty()) text = fmt::format("{} and {}", join(kinds), text);
  text += " layers";
  if (key.types != kAllTypes)
    text += fmt::format(" with \"Type\": \"{}\"",
                        fmt::join(names_in(kLayerTypes, key.types), "\" or \""));
  return text;
}

}  // namespace norn::keys

namespace norn {

bool is_layer_key(const std::string& name, LayerKind kind, LayerType type) {
  const keys::Key* key = keys::find_key(keys::layer_keys(), name);
  require(key != nullptr, "is_layer_key: the name of a key");
  return key->legal_for(kind, type);
}

const LayerDescriptor* NetworkDescriptor::find(const std::string& layer_name) const {
  const auto found = std::find_if(layers.begin(), layers.end(), [&](const LayerDescriptor& layer) {
    return layer.name == layer_name;
  });
  return found == layers.end() ? nullptr : &*found;
}

}  // namespace norn
