// SPDX-License-Identifier: Apache-2.0
// The documentation of single keys, from the tables of keys.
#include "src/base/text.h"
#include "src/nn/explain.h"
#include "src/nn/key_check.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace norn {
namespace {

using keys::Key;
using keys::ValueType;

constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 11;

enum class Home { network, layer, machine, command };

// A key and the objects around it, outermost first.
struct Entry {
  Home home = Home::network;
  std::vector<const Key*> way;
  const Key& key() const { return *way.back(); }
  std::string name() const {
    std::string text;
    for (const Key* key : way) {
      if (!text.empty()) text += ".";
      text += key->name;
    }
    return text;
  }
};

void add_entries(std::vector<Entry>& entries, const Entry& around, const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    Entry entry = around;
    entry.way.push_back(&key);
    entries.push_back(entry);
    add_entries(entries, entry, key.members);
  }
}

const std::vector<Entry>& all_entries() {
  static const std::vector<Entry> entries = [] {
    std::vector<Entry> all;
    add_entries(all, {Home::network, {}}, keys::network_keys());
    add_entries(all, {Home::layer, {}}, keys::layer_keys());
    add_entries(all, {Home::machine, {}}, keys::machine_keys());
    add_entries(all, {Home::command, {}}, keys::command_keys());
    return all;
  }();
  return entries;
}

bool is_of_network(const Entry& entry) {
  return entry.home == Home::network || entry.home == Home::layer;
}

std::string wrapped(const std::string& text) {
  std::string out;
  std::size_t used = kIndent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (used > kIndent && used + 1 + (end - at) > kWidth) {
      out += fmt::format("\n{:{}}", "", kIndent);
      used = kIndent;
    } else if (used > kIndent) {
      out += ' ';
      ++used;
    }
    out += text.substr(at, end - at);
    used += end - at;
    at = end + 1;
  }
  return out;
}

std::string row(const char* title, const std::string& text) {
  return fmt::format("  {:<{}}{}\n", title, kIndent - 2, wrapped(text));
}

std::string type_text(const Key& key) {
  return key.type == ValueType::word ? "one of the words below" : keys::expected_phrase(key);
}

std::string words_text(const Key& key) {
  std::vector<std::string> words;
  for (const keys::Word& word : key.words) {
    if (!word.listed) continue;
    std::string text = word.name;
    for (const keys::Spelling& alias : word.aliases) text += " = " + alias.name;
    words.push_back(text);
  }
  return join(words);
}

std::string default_text(const Key& key) {
  if (key.required) return "none: it is required";
  if (!key.default_text.empty()) return key.default_text;
  const Json::Value value = keys::default_of(key);
  const bool empty = value.isNull() || (value.isString() && value.asString().empty());
  if (empty) return "none";
  return value.isString() ? value.asString() : keys::shown(value);
}

// A value that the key takes: a telling one where the default is none.
std::string sample_value(const Key& key);

std::string sample_members(const Key& key) {
  std::string text;
  for (const Key& member : key.members) {
    if (!member.refusal.empty()) continue;
    text +=
        fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", member.name, sample_value(member));
  }
  return fmt::format("{{ {} }}", text);
}

std::string sample_value(const Key& key) {
  const Json::Value standard = keys::default_of(key);
  const bool told = !standard.isNull() && !(standard.isString() && standard.asString().empty());
  switch (key.type) {
    case ValueType::object:
      return sample_members(key);
    case ValueType::objects:
      return fmt::format("[{}]", sample_members(key));
    case ValueType::layers:
      return R"([{ "N": 100 }, { "N": 16 }, { "N": 100 }])";
    case ValueType::names:
      return "[\"Input\"]";
    case ValueType::size:
      return "128";
    case ValueType::window:
      return "[3, 3]";
    case ValueType::word:
      return fmt::format("\"{}\"", told ? standard.asString() : key.words.front().name);
    case ValueType::text:
      return told ? keys::shown(standard) : "\"some_name\"";
    case ValueType::boolean:
      return "true";
    case ValueType::number:
    case ValueType::integer:
      break;
  }
  if (told) return keys::shown(standard);
  const double low = std::isfinite(key.limits.low) ? key.limits.low : 0.0;
  return fmt::format("{:g}", key.limits.above_low ? low + 1.0 : std::max(low, 0.0));
}

// The kind that a layer needs for the key to be legal there, and a type where that matters.
std::string layer_around(const Key& key) {
  if (key.name == "Kind" || key.name == "Type") return "";
  const unsigned fed = key.kinds & keys::kFed;
  std::string text =
      fmt::format("\"Kind\": \"{}\", ", keys::names_in(kLayerKinds, fed ? fed : key.kinds).front());
  if (key.types != keys::kAllTypes)
    text += fmt::format("\"Type\": \"{}\", ", keys::names_in(kLayerTypes, key.types).front());
  return text;
}

std::string example_of(const Entry& entry) {
  std::string text = fmt::format("\"{}\": {}", entry.key().name, sample_value(entry.key()));
  for (auto around = entry.way.rbegin() + 1; around != entry.way.rend(); ++around) {
    for (const Key& other : (*around)->members)
      if (other.required && &other != *(around - 1))
        text = fmt::format("\"{}\": {}, {}", other.name, sample_value(other), text);
    const bool list = (*around)->type == ValueType::objects;
    text = fmt::format("\"{}\": {}{{ {} }}{}", (*around)->name, list ? "[" : "", text,
                       list ? "]" : "");
  }
  if (entry.home == Home::layer) text = layer_around(*entry.way.front()) + text;
  return fmt::format("{{ {} }}", text);
}

std::string home_text(const Entry& entry) {
  std::string text = entry.home == Home::network   ? "a network"
                     : entry.home == Home::machine ? "the description of a machine (`machine`)"
                     : entry.home == Home::command ? "a command file (`cdl`)"
                                                   : keys::legal_phrase(*entry.way.front());
  for (auto around = entry.way.rbegin() + 1; around != entry.way.rend(); ++around)
    text = fmt::format("\"{}\" of {}", (*around)->name, text);
  return text;
}

std::vector<std::string> remarks_of(const Key& key) {
  std::vector<std::string> remarks;
  const auto add = [&](const std::string& name, const std::string& note) {
    if (!note.empty()) remarks.push_back(fmt::format("\"{}\" {}", name, note));
  };
  for (const keys::Spelling& alias : key.aliases) add(alias.name, alias.note);
  for (const keys::Word& word : key.words) {
    add(word.name, word.note);
    add(word.name, word.refusal);
    for (const keys::Spelling& alias : word.aliases) add(alias.name, alias.note);
  }
  if (!key.boolean_note.empty()) remarks.push_back("a boolean " + key.boolean_note);
  if (!key.has_effect) remarks.emplace_back("it is accepted, but has no effect");
  return remarks;
}

std::string explanation(const Entry& entry) {
  const Key& key = entry.key();
  std::string text = entry.name() + "\n";
  if (!key.refusal.empty()) return text + row("refused", fmt::format("it {}", key.refusal));
  text += row("meaning", key.help);
  text += row("type", type_text(key));
  if (!key.words.empty()) text += row("values", words_text(key));
  if (key.members.empty()) text += row("default", default_text(key));
  text += row("where", home_text(entry));
  std::vector<std::string> names;
  for (const keys::Spelling& alias : key.aliases) names.push_back(alias.name);
  if (!names.empty()) text += row("also", join(names));
  for (const Key& member : key.members)
    if (member.refusal.empty()) text += row("key", fmt::format("{}: {}", member.name, member.help));
  for (const std::string& remark : remarks_of(key)) text += row("note", remark);
  return text + row("example", example_of(entry));
}

// Up to its first end, without the full stop.
std::string first_clause(const std::string& help) {
  std::string text = help.substr(0, std::min(help.find(". "), help.find("; ")));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

bool is_named(const Key& key, const std::string& name) {
  return equal_ignoring_case(key.name, name) || keys::alias_of(key, name) != nullptr;
}

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at <= name.size()) {
    const std::size_t end = std::min(name.find('.', at), name.size());
    if (end > at) parts.push_back(name.substr(at, end - at));
    at = end + 1;
  }
  // "Layers.Activation" and "Layers[1].Activation", as errors name keys.
  if (parts.size() > 1 && equal_ignoring_case(parts[0].substr(0, parts[0].find('[')), "Layers"))
    parts.erase(parts.begin());
  return parts;
}

// Whether the last keys of the way are those that are named.
bool ends_with(const Entry& entry, const std::vector<std::string>& parts) {
  if (parts.empty() || parts.size() > entry.way.size()) return false;
  const std::size_t first = entry.way.size() - parts.size();
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!is_named(*entry.way[first + i], parts[i])) return false;
  return true;
}

bool has_word(const Key& key, const std::string& name) {
  return std::any_of(key.words.begin(), key.words.end(), [&](const keys::Word& word) {
    return equal_ignoring_case(word.name, name) ||
           std::any_of(word.aliases.begin(), word.aliases.end(), [&](const keys::Spelling& alias) {
             return equal_ignoring_case(alias.name, name);
           });
  });
}

}  // namespace

std::optional<std::string> explain_key(const std::string& name) {
  const std::vector<std::string> parts = parts_of(name);
  std::vector<const Entry*> found;
  for (const Entry& entry : all_entries())
    if (ends_with(entry, parts)) found.push_back(&entry);
  std::string text;
  if (found.empty())
    for (const Entry& entry : all_entries())
      if (has_word(entry.key(), name)) {
        text = fmt::format("\"{}\" is a value of:\n\n", name);
        found.push_back(&entry);
      }
  if (found.empty()) return std::nullopt;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0) text += '\n';
    text += explanation(*found[i]);
  }
  return text;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Entry& entry : all_entries())
    if (is_of_network(entry) && entry.key().refusal.empty() &&
        std::find(names.begin(), names.end(), entry.name()) == names.end())
      names.push_back(entry.name());
  return names;
}

std::vector<std::string> words_of_keys() {
  std::vector<std::string> words;
  for (const Entry& entry : all_entries()) {
    words.push_back(entry.key().name);
    for (const keys::Spelling& alias : entry.key().aliases) words.push_back(alias.name);
    for (const keys::Word& word : entry.key().words)
      if (word.listed) words.push_back(word.name);
  }
  return words;
}

std::string key_list() {
  std::string text;
  const auto list = [&](Home home, const char* title) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", title);
    for (const Entry& entry : all_entries()) {
      if (entry.home != home || !entry.key().refusal.empty()) continue;
      text += fmt::format("  {:<36} {}\n", entry.name(), first_clause(entry.key().help));
    }
  };
  list(Home::network, "Keys of a network");
  list(Home::layer, "Keys of a layer (\"Layers\")");
  list(Home::machine, "Keys of a machine (`machine`)");
  list(Home::command, "Keys of a command file (`cdl`)");
  return text;
}

std::vector<KeyExample> key_examples() {
  std::vector<KeyExample> examples;
  for (const Entry& entry : all_entries())
    if (is_of_network(entry) && entry.way.front()->refusal.empty() && entry.key().refusal.empty())
      examples.push_back({entry.name(), example_of(entry), entry.home == Home::layer});
  return examples;
}

}  // namespace norn
