// SPDX-License-Identifier: Apache-2.0
// Writing a network descriptor as JSON, by the table of keys and in its order.
#include "src/nn/descriptor_json.h"
#include "src/nn/key.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <json/writer.h>

namespace norn {
namespace {

using keys::Draft;
using keys::Key;

constexpr std::size_t kLineWidth = 100;

struct Entry {
  std::string name;
  std::string value;  ///< JSON in one line
};

std::string quoted(const std::string& text) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  builder["emitUTF8"] = true;
  return Json::writeString(builder, text);
}

std::string in_one_line(const Json::Value& value);

std::string in_braces(const std::vector<Entry>& entries) {
  std::string text;
  for (const Entry& entry : entries)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", quoted(entry.name), entry.value);
  return fmt::format("{{ {} }}", text);
}

std::string in_one_line(const Json::Value& value) {
  if (value.isObject()) {
    std::vector<Entry> entries;
    for (const std::string& name : value.getMemberNames())
      entries.push_back({name, in_one_line(value[name])});
    return in_braces(entries);
  }
  if (value.isArray()) {
    std::string text;
    for (const Json::Value& entry : value)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", in_one_line(entry));
    return fmt::format("[{}]", text);
  }
  if (value.type() == Json::realValue) return fmt::format("{}", value.asDouble());
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  builder["emitUTF8"] = true;
  return Json::writeString(builder, value);
}

// What differs from the defaults, and the essentials, in the order of the table.
std::vector<Entry> entries_of(const std::vector<Key>& keys, const Draft& draft,
                              const LayerDescriptor* layer) {
  std::vector<Entry> entries;
  for (const Key& key : keys) {
    if (!key.refusal.empty() || (layer && !key.legal_for(layer->kind, layer->type))) continue;
    if (key.type == keys::ValueType::object) {
      const std::vector<Entry> members = entries_of(key.members, draft, nullptr);
      if (!members.empty()) entries.push_back({key.name, in_braces(members)});
      continue;
    }
    const Json::Value value = keys::value_of(key, draft);
    if (!value.isNull()) entries.push_back({key.name, in_one_line(value)});
  }
  return entries;
}

// In one line when it is short, else a line for each key.
std::string layer_text(const std::vector<Entry>& entries) {
  const std::string line = in_braces(entries);
  if (line.size() + 4 <= kLineWidth) return line;
  std::string text;
  for (const Entry& entry : entries)
    text +=
        fmt::format("{}      {}: {}", text.empty() ? "" : ",\n", quoted(entry.name), entry.value);
  return fmt::format("{{\n{}\n    }}", text);
}

}  // namespace

std::string to_json(const NetworkDescriptor& network) {
  Draft draft;
  draft.network = network;
  std::string text;
  for (const Entry& entry : entries_of(keys::network_keys(), draft, nullptr))
    text += fmt::format("  {}: {},\n", quoted(entry.name), entry.value);
  std::string layers;
  for (const LayerDescriptor& layer : network.layers) {
    draft.layer = layer;
    layers += fmt::format("{}    {}", layers.empty() ? "" : ",\n",
                          layer_text(entries_of(keys::layer_keys(), draft, &layer)));
  }
  return fmt::format("{{\n{}  \"Layers\": [\n{}\n  ]\n}}\n", text, layers);
}

}  // namespace norn
