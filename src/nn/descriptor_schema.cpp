// SPDX-License-Identifier: Apache-2.0
// The JSON schemas (draft 7) of descriptors and machines, from the tables of keys.
#include "norn/nn/machine.h"
#include "src/nn/descriptor_json.h"
#include "src/nn/key_check.h"

#include <cctype>
#include <cmath>

#include <json/writer.h>

namespace norn {
namespace {

using keys::Key;
using keys::ValueType;

// A pattern that matches the words whole, in any case.
std::string pattern_of(const std::vector<std::string>& words) {
  std::string pattern;
  for (const std::string& word : words) {
    pattern += pattern.empty() ? "" : "|";
    for (char c : word) {
      if (std::isalpha(static_cast<unsigned char>(c)))
        pattern += {'[', char(std::tolower(c)), char(std::toupper(c)), ']'};
      else if (c == '$')
        pattern += "\\$";
      else
        pattern += c;
    }
  }
  return "^(" + pattern + ")$";
}

std::string key_pattern(const Key& key) {
  std::vector<std::string> names = {key.name};
  for (const keys::Spelling& alias : key.aliases) names.push_back(alias.name);
  return pattern_of(names);
}

Json::Value array_of(Json::Value items, int fewest, int most) {
  Json::Value schema;
  schema["type"] = "array";
  schema["items"] = std::move(items);
  schema["minItems"] = fewest;
  if (most > 0) schema["maxItems"] = most;
  return schema;
}

Json::Value any_of(std::initializer_list<Json::Value> choices) {
  Json::Value schema;
  for (const Json::Value& choice : choices) schema["anyOf"].append(choice);
  return schema;
}

Json::Value of_type(const char* type) {
  Json::Value schema;
  schema["type"] = type;
  return schema;
}

Json::Value number_schema(const Key& key, const char* type) {
  const auto bound = [](double value) {
    const bool whole = std::nearbyint(value) == value && std::abs(value) < 9e18;
    return whole ? Json::Value(Json::Int64(value)) : Json::Value(value);
  };
  Json::Value schema = of_type(type);
  const keys::Limits& limits = key.limits;
  if (std::isfinite(limits.low))
    schema[limits.above_low ? "exclusiveMinimum" : "minimum"] = bound(limits.low);
  if (std::isfinite(limits.high))
    schema[limits.below_high ? "exclusiveMaximum" : "maximum"] = bound(limits.high);
  return schema;
}

Json::Value word_schema(const Key& key) {
  std::vector<std::string> all;
  Json::Value listed;
  for (const keys::Word& word : key.words) {
    if (!word.refusal.empty()) continue;
    if (word.listed) listed["enum"].append(word.name);
    all.push_back(word.name);
    for (const keys::Spelling& alias : word.aliases) all.push_back(alias.name);
  }
  Json::Value any_case = of_type("string");
  any_case["pattern"] = pattern_of(all);
  return any_of({listed, any_case});
}

Json::Value object_schema(const std::vector<Key>& keys);

Json::Value schema_of_value(const Key& key) {
  switch (key.type) {
    case ValueType::text:
      return of_type("string");
    case ValueType::number:
      return number_schema(key, "number");
    case ValueType::integer:
      return number_schema(key, "integer");
    case ValueType::word:
      return word_schema(key);
    case ValueType::names:
      return any_of({of_type("string"), array_of(of_type("string"), 1, 0)});
    case ValueType::boolean: {
      Json::Value number;
      number["enum"].append(0);
      number["enum"].append(1);
      return any_of({of_type("boolean"), number});
    }
    case ValueType::size: {
      Json::Value automatic = of_type("string");
      automatic["pattern"] = pattern_of({"auto"});
      const Json::Value units = number_schema(key, "integer");
      return any_of({units, array_of(units, 1, 4), automatic});
    }
    case ValueType::window: {
      const Json::Value extent = number_schema(key, "integer");
      return any_of({extent, array_of(extent, 1, 3)});
    }
    case ValueType::object: {
      const Json::Value object = object_schema(key.members);
      return key.boolean_note.empty() ? object : any_of({object, of_type("boolean")});
    }
    case ValueType::objects: {
      const Json::Value object = object_schema(key.members);
      return any_of({object, array_of(object, 0, 0)});
    }
    case ValueType::layers:
      break;
  }
  Json::Value layer;
  layer["$ref"] = "#/definitions/layer";
  return any_of({layer, array_of(layer, 1, 0)});
}

Json::Value schema_of_key(const Key& key) {
  Json::Value schema = schema_of_value(key);
  schema["description"] = key.help;
  const Json::Value standard = keys::default_of(key);
  if (key.default_text.empty() && !standard.isNull() && key.members.empty() && !key.required)
    schema["default"] = standard;
  return schema;
}

// Keys as documented, for editors that complete them, and in any spelling that the reader accepts.
Json::Value object_schema(const std::vector<Key>& keys) {
  Json::Value schema = of_type("object");
  schema["additionalProperties"] = false;
  for (const Key& key : keys) {
    if (!key.refusal.empty()) continue;
    const Json::Value value = schema_of_key(key);
    schema["properties"][key.name] = value;
    Json::Value other = value;
    other.removeMember("description");
    other.removeMember("default");
    schema["patternProperties"][key_pattern(key)] = other;
  }
  return schema;
}

Json::Value condition(const char* key, const std::string& word) {
  Json::Value schema;
  schema["properties"][key]["pattern"] = pattern_of({word});
  schema["required"].append(key);
  return schema;
}

// Keys that layers of a kind or type do not have. Layers without Kind are told by position, which a
// schema cannot see.
Json::Value layer_rules() {
  Json::Value rules(Json::arrayValue);
  const auto add = [&](const char* word, const char* name, unsigned Key::*set, unsigned bit) {
    Json::Value rule;
    rule["if"] = condition(word, name);
    for (const Key& key : keys::layer_keys())
      if (key.refusal.empty() && (key.*set & bit) == 0)
        rule["then"]["patternProperties"][key_pattern(key)] = false;
    if (rule.isMember("then")) rules.append(rule);
  };
  for (std::size_t kind = 0; kind < kLayerKinds.size(); ++kind)
    add("Kind", kLayerKinds[kind].name, &Key::kinds, keys::bit(LayerKind(kind)));
  for (std::size_t type = 0; type < kLayerTypes.size(); ++type)
    add("Type", kLayerTypes[type].name, &Key::types, keys::bit(LayerType(type)));
  return rules;
}

std::string text_of(Json::Value schema) {
  schema["$schema"] = "http://json-schema.org/draft-07/schema#";
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "  ";
  builder["precision"] = 9;
  return Json::writeString(builder, schema) + "\n";
}

}  // namespace

std::string descriptor_json_schema() {
  Json::Value schema = object_schema(keys::network_keys());
  schema["title"] = "Norn network descriptor";
  schema["definitions"]["layer"] = object_schema(keys::layer_keys());
  schema["definitions"]["layer"]["allOf"] = layer_rules();
  return text_of(std::move(schema));
}

std::string machine_json_schema() {
  Json::Value schema = object_schema(keys::machine_keys());
  schema["title"] = "Norn machine description";
  return text_of(std::move(schema));
}

}  // namespace norn
