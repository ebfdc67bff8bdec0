// SPDX-License-Identifier: Apache-2.0
// Checks of JSON values against the table of keys.
#include "src/nn/key_check.h"

#include "src/base/text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <json/writer.h>

namespace norn::keys {
namespace {

std::string number_text(double value) {
  if (std::nearbyint(value) == value && std::abs(value) < 2e19) return fmt::format("{:.0f}", value);
  return fmt::format("{}", value);
}

std::string limits_phrase(const Limits& limits) {
  const bool low = std::isfinite(limits.low);
  const bool high = std::isfinite(limits.high);
  if (low && high && !limits.above_low && !limits.below_high)
    return fmt::format(" from {} to {}", number_text(limits.low), number_text(limits.high));
  std::string text;
  if (low)
    text =
        fmt::format(" {} {}", limits.above_low ? "above" : "of at least", number_text(limits.low));
  if (high)
    text += fmt::format("{} {} {}", low ? " and" : "", limits.below_high ? "below" : "of at most",
                        number_text(limits.high));
  return text;
}

bool is_number(const Json::Value& value) {
  return value.type() == Json::intValue || value.type() == Json::uintValue ||
         value.type() == Json::realValue;
}

bool is_whole(const Json::Value& value) {
  return is_number(value) && (value.isInt64() || value.isUInt64());
}

bool within(const Limits& limits, double value) {
  if (!std::isfinite(value)) return false;
  if (limits.above_low ? value <= limits.low : value < limits.low) return false;
  return limits.below_high ? value < limits.high : value <= limits.high;
}

std::string type_phrase(const Json::Value& value) {
  switch (value.type()) {
    case Json::nullValue:
      return "null";
    case Json::booleanValue:
      return "a boolean";
    case Json::stringValue:
      return "a string";
    case Json::arrayValue:
      return "an array";
    case Json::objectValue:
      return "an object";
    default:
      return "a number";
  }
}

std::string wrong_type(const Key& key, const Json::Value& value) {
  const std::string text = value.isNull() ? std::string() : shown(value) + " ";
  return fmt::format("{}is {}; expected {}", text, type_phrase(value), expected_phrase(key));
}

std::string out_of_range(const Key& key, const Json::Value& value) {
  return fmt::format("{} is out of range; expected {}", shown(value), expected_phrase(key));
}

std::string number_fault(const Key& key, const Json::Value& value) {
  if (!is_number(value)) return wrong_type(key, value);
  // As the float that it becomes, so that 0.99999999 does not pass for less than 1.
  const double number = value.asDouble();
  const bool fits = std::abs(number) <= double(std::numeric_limits<float>::max());
  return fits && within(key.limits, double(float(number))) ? "" : out_of_range(key, value);
}

std::string integer_fault(const Key& key, const Json::Value& value) {
  if (!is_number(value)) return wrong_type(key, value);
  if (!is_whole(value) && std::nearbyint(value.asDouble()) != value.asDouble())
    return fmt::format("{} is not a whole number; expected {}", shown(value), expected_phrase(key));
  // The largest 64-bit numbers round up to 2^64 as doubles, but are below it.
  const double number = std::min(value.asDouble(), std::nextafter(0x1p64, 0.0));
  return is_whole(value) && within(key.limits, number) ? "" : out_of_range(key, value);
}

std::string extents_fault(const Key& key, const Json::Value& value, Json::ArrayIndex most) {
  if (!value.isArray()) return integer_fault(key, value);
  if (value.empty() || value.size() > most)
    return fmt::format("{} has {} entries; expected {}", shown(value), value.size(),
                       expected_phrase(key));
  for (const Json::Value& entry : value) {
    const std::string fault = integer_fault(key, entry);
    if (!fault.empty()) return fmt::format("{}: {}", shown(value), fault);
  }
  return "";
}

std::string text_fault(const Key& key, const Json::Value& value) {
  if (!value.isString()) return wrong_type(key, value);
  const std::string text = value.asString();
  const bool controls = std::any_of(text.begin(), text.end(),
                                    [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return controls ? shown(value) + " has control characters; expected plain text" : "";
}

std::string names_fault(const Key& key, const Json::Value& value) {
  if (!value.isArray()) return text_fault(key, value);
  if (value.empty()) return fmt::format("[] has no entries; expected {}", expected_phrase(key));
  for (const Json::Value& name : value) {
    if (!name.isString()) return wrong_type(key, value);
    const std::string fault = text_fault(key, name);
    if (!fault.empty()) return fault;
  }
  return "";
}

void check_word(const Key& key, const std::string& text, Checked& checked) {
  std::vector<std::string> listed;
  for (const Word& word : key.words) {
    if (word.listed) listed.push_back(word.name);
    bool found = equal_ignoring_case(word.name, text);
    if (found) checked.note = word.note;
    for (const Spelling& alias : word.aliases) {
      if (found || !equal_ignoring_case(alias.name, text)) continue;
      found = true;
      checked.note = alias.note;
    }
    if (!found) continue;
    if (!word.refusal.empty()) checked.fault = fmt::format("\"{}\" {}", text, word.refusal);
    checked.value = word.name;
    return;
  }
  const std::string hint = did_you_mean(text, listed);
  checked.fault = fmt::format("{} is unknown{} Known: {}", shown(text), hint.empty() ? "." : hint,
                              join(listed));
}

}  // namespace

std::string shown(const Json::Value& value) {
  constexpr std::size_t kMost = 60;
  if (value.type() == Json::realValue) return fmt::format("{}", value.asDouble());
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  builder["emitUTF8"] = true;
  builder["precision"] = 9;
  std::string text = Json::writeString(builder, value);
  if (text.size() <= kMost) return text;
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string expected_phrase(const Key& key) {
  switch (key.type) {
    case ValueType::text:
      return "a string";
    case ValueType::boolean:
      return "true or false";
    case ValueType::number:
      return "a number" + limits_phrase(key.limits);
    case ValueType::integer:
      return "a whole number" + limits_phrase(key.limits);
    case ValueType::names:
      return "a name or an array of names";
    case ValueType::size:
      return fmt::format("a whole number{}, an array of 1 to 4 of them, or \"auto\"",
                         limits_phrase(key.limits));
    case ValueType::window:
      return fmt::format("a whole number{} or an array of 1 to 3 of them",
                         limits_phrase(key.limits));
    case ValueType::object:
      return "an object";
    case ValueType::objects:
      return "an object or an array of objects";
    case ValueType::layers:
      return "an array of layers, or one layer";
    case ValueType::word:
      break;
  }
  std::vector<std::string> words;
  for (const Word& word : key.words)
    if (word.listed) words.push_back(word.name);
  return "one of " + join(words);
}

Checked check_value(const Key& key, const Json::Value& value) {
  Checked checked;
  checked.value = value;
  const auto right_if = [&](bool right) {
    if (!right) checked.fault = wrong_type(key, value);
  };
  switch (key.type) {
    case ValueType::text:
      checked.fault = text_fault(key, value);
      break;
    case ValueType::number:
      checked.fault = number_fault(key, value);
      break;
    case ValueType::integer:
      checked.fault = integer_fault(key, value);
      break;
    case ValueType::names:
      checked.fault = names_fault(key, value);
      break;
    case ValueType::window:
      checked.fault = extents_fault(key, value, 3);
      break;
    case ValueType::objects:
    case ValueType::layers:
      right_if(value.isArray() || value.isObject());
      break;
    case ValueType::boolean:
      right_if(value.isBool() ||
               (is_whole(value) && (value.asDouble() == 0 || value.asDouble() == 1)));
      break;
    case ValueType::size:
      if (value.isString() && equal_ignoring_case(value.asString(), "auto"))
        checked.value = "auto";
      else
        checked.fault = extents_fault(key, value, 4);
      break;
    case ValueType::object:
      if (value.isBool() && !key.boolean_note.empty())
        checked.note = key.boolean_note;
      else
        right_if(value.isObject());
      break;
    case ValueType::word:
      if (value.isString())
        check_word(key, value.asString(), checked);
      else
        right_if(false);
      break;
  }
  return checked;
}

namespace {

void collect_faults(const Key& key, const Draft& draft, const std::string& prefix,
                    std::vector<std::string>& faults) {
  if (key.type == ValueType::object) {
    for (const Key& member : key.members)
      collect_faults(member, draft, prefix + key.name + ": ", faults);
    return;
  }
  const Json::Value value = value_of(key, draft);
  if (value.isNull()) return;
  const std::string fault = check_value(key, value).fault;
  if (!fault.empty()) faults.push_back(fmt::format("{}{} {}", prefix, key.name, fault));
}

}  // namespace

std::vector<std::string> descriptor_faults(const NetworkDescriptor& network) {
  std::vector<std::string> faults;
  Draft draft;
  draft.network = network;
  for (const Key& key : network_keys()) collect_faults(key, draft, "", faults);
  for (const LayerDescriptor& layer : network.layers) {
    draft.begin_layer(layer.kind);
    draft.layer = layer;
    const std::string prefix = fmt::format("layer \"{}\": ", layer.name);
    for (const Key& key : layer_keys()) {
      if (!key.refusal.empty()) continue;
      if (key.legal_for(layer.kind, layer.type))
        collect_faults(key, draft, prefix, faults);
      else if (key.type == ValueType::object ? value_of(key, draft) != value_of(key, Draft{})
                                             : held_by(draft, key) != default_of(key))
        faults.push_back(fmt::format("{}{} is not a key of {}; it belongs to {}", prefix, key.name,
                                     rules_of(layer.kind).phrase, legal_phrase(key)));
    }
    if (layer.auto_size && !rules_of(layer.kind).has_data)
      faults.push_back(
          fmt::format("{}N \"auto\" belongs to Input and Output layers; give {} a number of units",
                      prefix, rules_of(layer.kind).phrase));
  }
  return faults;
}

}  // namespace norn::keys
