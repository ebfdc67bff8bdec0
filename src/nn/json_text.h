// SPDX-License-Identifier: Apache-2.0
// A JSON text, parsed, with the lines of its values and the remarks and errors made on it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <json/value.h>

namespace norn {

class JsonText {
 public:
  /// Parses; comments and trailing commas are allowed. Throws UsageError naming line and column.
  JsonText(std::string text, std::string source, std::function<void(const std::string&)> note);

  const Json::Value& root() const { return root_; }

  /// The line of a value, from 1.
  int line_of(const Json::Value& value) const;
  /// The line of the key of a member of an object.
  int line_of_key(const Json::Value& member) const;

  void error(int line, const std::string& message);
  /// An error of the text as a whole.
  void error(const std::string& message) { error(0, message); }
  void note(int line, const std::string& message) const;
  /// Throws a UsageError with all errors, by line, if there were any.
  void throw_errors();

 private:
  struct Problem {
    int line;
    std::string text;
  };
  void note_repeated_keys() const;
  std::string place(int line) const;
  int line_at(std::size_t offset) const;

  std::string text_;
  std::string source_;
  std::function<void(const std::string&)> note_;
  std::vector<std::size_t> line_starts_;
  std::vector<Problem> errors_;
  Json::Value root_;
};

}  // namespace norn
