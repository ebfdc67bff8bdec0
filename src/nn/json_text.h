// SPDX-License-Identifier: Apache-2.0
// A JSON text, parsed, with the lines of its values and the remarks and errors made on it.
#pragma once

#include "norn/base/problem.h"
#include "src/nn/descriptor.h"

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

  /// Where a value begins.
  TextPlace place_of(const Json::Value& value) const;
  /// Where the key of a member of an object begins.
  TextPlace place_of_key(const Json::Value& member) const;

  /// `key` is the way to what is wrong: "Layers[1].Activation", or empty.
  void error(TextPlace place, const std::string& key, const std::string& message);
  void note(TextPlace place, const std::string& message) const;
  const std::string& source() const { return source_; }
  const std::vector<Problem>& errors() const { return errors_; }
  /// Throws a ProblemsError with all errors, by line, if there were any.
  void throw_errors() const;

 private:
  void note_repeated_keys() const;
  TextPlace place_at(std::size_t offset) const;

  std::string text_;
  std::string source_;
  std::function<void(const std::string&)> note_;
  std::vector<std::size_t> line_starts_;
  std::vector<Problem> errors_;
  Json::Value root_;
};

}  // namespace norn
