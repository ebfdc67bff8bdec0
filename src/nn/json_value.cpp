// SPDX-License-Identifier: Apache-2.0
// JSON values: jsoncpp parses them and writes their texts.
#include "src/nn/json_value.h"

#include "norn/base/error.h"
#include "src/base/files.h"
#include "src/base/text.h"
#include "src/nn/json_text.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <json/writer.h>

namespace norn {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kIndent = 2;

// In ASCII; bytes that are no UTF-8 become the replacement character, so that every reader takes
// the file.
std::string quoted(const std::string& text) {
  Json::StreamWriterBuilder builder;
  builder["indentation"] = "";
  builder["emitUTF8"] = false;
  return Json::writeString(builder, valid_utf8(text));
}

JsonValue converted(const Json::Value& value) {
  switch (value.type()) {
    case Json::nullValue:
      break;
    case Json::booleanValue:
      return value.asBool();
    case Json::intValue:
      return value.asInt64();
    case Json::uintValue:
      return value.asUInt64();
    case Json::realValue:
      return value.asDouble();
    case Json::stringValue:
      return valid_utf8(value.asString());
    case Json::arrayValue: {
      JsonValue array = JsonValue::array();
      for (const Json::Value& entry : value) array.push(converted(entry));
      return array;
    }
    case Json::objectValue: {
      // By the names that are written, so that what is written is read again in the same order.
      std::map<std::string, JsonValue> members;
      for (const std::string& name : value.getMemberNames())
        members[valid_utf8(name)] = converted(value[name]);
      JsonValue object = JsonValue::object();
      for (auto& [name, member] : members) object.set(name, std::move(member));
      return object;
    }
  }
  return {};
}

std::string indented(const std::string& text, std::size_t indent) {
  std::string out;
  for (const char c : text.substr(0, text.find_last_not_of("\n ") + 1)) {
    out += c;
    if (c == '\n') out.append(indent, ' ');
  }
  return out;
}

}  // namespace

JsonValue::JsonValue(double value) {
  if (std::isfinite(value)) value_ = value;
}

JsonValue& JsonValue::set(const std::string& name, JsonValue value) {
  auto& members = std::get<std::vector<Member>>(value_);
  for (Member& member : members) {
    if (member.first != name) continue;
    member.second = std::move(value);
    return *this;
  }
  members.emplace_back(name, std::move(value));
  return *this;
}

JsonValue& JsonValue::push(JsonValue value) {
  std::get<std::vector<JsonValue>>(value_).push_back(std::move(value));
  return *this;
}

const JsonValue& JsonValue::operator[](const std::string& name) const {
  static const JsonValue none;
  for (const Member& member : members())
    if (member.first == name) return member.second;
  return none;
}

const std::vector<JsonValue>& JsonValue::entries() const {
  static const std::vector<JsonValue> none;
  const auto* array = std::get_if<std::vector<JsonValue>>(&value_);
  return array ? *array : none;
}

const std::vector<JsonValue::Member>& JsonValue::members() const {
  static const std::vector<Member> none;
  const auto* object = std::get_if<std::vector<Member>>(&value_);
  return object ? *object : none;
}

std::string JsonValue::text_or(const std::string& otherwise) const {
  const auto* text = std::get_if<std::string>(&value_);
  return text ? *text : otherwise;
}

bool JsonValue::bool_or(bool otherwise) const {
  const bool* value = std::get_if<bool>(&value_);
  return value ? *value : otherwise;
}

std::int64_t JsonValue::integer_or(std::int64_t otherwise) const {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  const auto* value = std::get_if<std::uint64_t>(&value_);
  if (!value || *value > std::uint64_t(std::numeric_limits<std::int64_t>::max())) return otherwise;
  return std::int64_t(*value);
}

double JsonValue::number_or(double otherwise) const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return double(*value);
  const auto* value = std::get_if<std::uint64_t>(&value_);
  return value ? double(*value) : otherwise;
}

std::string JsonValue::line() const {
  if (is_null()) return "null";
  if (const auto* value = std::get_if<bool>(&value_)) return *value ? "true" : "false";
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return fmt::format("{}", *value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return fmt::format("{}", *value);
  if (const auto* value = std::get_if<double>(&value_)) return fmt::format("{}", *value);
  if (const auto* value = std::get_if<std::string>(&value_)) return quoted(*value);
  if (const auto* value = std::get_if<Verbatim>(&value_))
    return parse_json(value->text, "JSON").line();
  std::string text;
  for (const JsonValue& entry : entries()) text += (text.empty() ? "" : ", ") + entry.line();
  if (is_array()) return fmt::format("[{}]", text);
  for (const Member& member : members())
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", quoted(member.first),
                        member.second.line());
  return fmt::format("{{{}}}", text);
}

std::string JsonValue::text() const {
  return text_at(0) + "\n";
}

std::string JsonValue::text_at(std::size_t indent) const {
  if (const auto* value = std::get_if<Verbatim>(&value_)) return indented(value->text, indent);
  std::string short_text = line();
  if (indent > 0 && indent + short_text.size() <= kLineWidth) return short_text;
  const std::string next = fmt::format("\n{:{}}", "", indent + kIndent);
  std::string text;
  for (const JsonValue& entry : entries())
    text += (text.empty() ? "" : ",") + next + entry.text_at(indent + kIndent);
  for (const Member& member : members())
    text += fmt::format("{}{}{}: {}", text.empty() ? "" : ",", next, quoted(member.first),
                        member.second.text_at(indent + kIndent));
  if (text.empty()) return short_text;
  const std::string end = fmt::format("\n{:{}}", "", indent);
  return is_array() ? fmt::format("[{}{}]", text, end) : fmt::format("{{{}{}}}", text, end);
}

JsonValue parse_json(const std::string& text, const std::string& source) {
  return converted(JsonText(text, source, {}).root());
}

JsonValue read_json(const std::filesystem::path& file) {
  const std::optional<std::string> text = read_text_file(file);
  if (!text)
    throw UsageError(fmt::format("{}: cannot be read; expected a file of JSON", file.string()));
  return parse_json(*text, file.string());
}

}  // namespace norn
