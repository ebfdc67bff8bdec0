// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// JSON for other programs: what the programs record and read again.
namespace norn {

/// A JSON value. Objects keep the order in which their members were set.
class JsonValue {
 public:
  using Member = std::pair<std::string, JsonValue>;

  JsonValue() = default;  ///< null
  JsonValue(bool value) : value_(value) {}
  template <std::signed_integral T>
  JsonValue(T value) : value_(std::int64_t(value)) {}
  template <std::unsigned_integral T>
  JsonValue(T value) : value_(std::uint64_t(value)) {}
  /// Numbers that are not finite become null: JSON has none.
  JsonValue(double value);
  JsonValue(std::string value) : value_(std::move(value)) {}
  JsonValue(const char* value) : value_(std::string(value)) {}
  JsonValue(const std::filesystem::path& value) : value_(value.string()) {}
  static JsonValue object() { return JsonValue(Value(std::vector<Member>())); }
  static JsonValue array() { return JsonValue(Value(std::vector<JsonValue>())); }
  /// A text that is JSON already, such as a descriptor's, taken over as it stands.
  static JsonValue verbatim(std::string text) {
    return JsonValue(Value(Verbatim{std::move(text)}));
  }

  /// Sets a member of an object, in its old place when there is one of that name.
  JsonValue& set(const std::string& name, JsonValue value);
  /// Appends to an array.
  JsonValue& push(JsonValue value);

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_object() const { return std::holds_alternative<std::vector<Member>>(value_); }
  bool is_array() const { return std::holds_alternative<std::vector<JsonValue>>(value_); }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  /// The member of that name, or null; also null when this is no object.
  const JsonValue& operator[](const std::string& name) const;
  /// Entries of an array, members of an object; none when it is neither.
  const std::vector<JsonValue>& entries() const;
  const std::vector<Member>& members() const;
  /// What stands there, or `otherwise` when it is of another type. Integers that do not fit are of
  /// another type.
  std::string text_or(const std::string& otherwise) const;
  bool bool_or(bool otherwise) const;
  std::int64_t integer_or(std::int64_t otherwise) const;
  double number_or(double otherwise) const;

  /// In one line, ASCII alone: other characters are escaped.
  std::string line() const;
  /// Indented, with a line end; short arrays and objects stand in one line.
  std::string text() const;

 private:
  struct Verbatim {
    std::string text;
  };
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string,
                             std::vector<JsonValue>, std::vector<Member>, Verbatim>;
  explicit JsonValue(Value value) : value_(std::move(value)) {}
  std::string text_at(std::size_t indent) const;

  Value value_ = nullptr;
};

/// Parses JSON; `source` names it in messages. Throws UsageError naming line and column. Members
/// come in the order of their names.
JsonValue parse_json(const std::string& text, const std::string& source);
/// Throws UsageError also when the file cannot be read.
JsonValue read_json(const std::filesystem::path& file);

}  // namespace norn
