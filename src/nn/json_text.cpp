// SPDX-License-Identifier: Apache-2.0
// Parsing with jsoncpp, and finding lines.
#include "src/nn/json_text.h"

#include "norn/base/error.h"
#include "src/base/text.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <json/reader.h>

namespace norn {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct SyntaxError {
  int line = 1;
  int column = 1;
  std::string message;
};

std::unique_ptr<Json::CharReader> make_reader(bool reject_repeated_keys) {
  Json::CharReaderBuilder builder;
  builder["collectComments"] = false;
  builder["failIfExtra"] = true;
  builder["stackLimit"] = 100;
  builder["rejectDupKeys"] = reject_repeated_keys;
  return std::unique_ptr<Json::CharReader>(builder.newCharReader());
}

// jsoncpp reports "* Line 3, Column 7" and, on the next line, the message.
std::vector<SyntaxError> split_errors(const std::string& report) {
  std::vector<SyntaxError> errors;
  std::istringstream lines(report);
  SyntaxError error;
  bool placed = false;
  for (std::string line; std::getline(lines, line);) {
    if (std::sscanf(line.c_str(), "* Line %d, Column %d", &error.line, &error.column) == 2) {
      placed = true;
    } else if (placed) {
      error.message = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      errors.push_back(error);
      placed = false;
    }
  }
  return errors;
}

}  // namespace

JsonText::JsonText(std::string text, std::string source,
                   std::function<void(const std::string&)> note)
    : text_(std::move(text)), source_(std::move(source)), note_(std::move(note)) {
  if (text_.starts_with(kByteOrderMark)) text_.erase(0, kByteOrderMark.size());
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i)
    if (text_[i] == '\n') line_starts_.push_back(i + 1);
  std::string report;
  try {
    if (make_reader(false)->parse(text_.data(), text_.data() + text_.size(), &root_, &report)) {
      note_repeated_keys();
      return;
    }
  } catch (const Json::Exception&) {  // its stack limit
    throw UsageError(
        fmt::format("{}: the JSON is nested too deeply; a network needs 6 levels", source_));
  }
  const std::vector<SyntaxError> errors = split_errors(report);
  if (errors.empty()) throw UsageError(fmt::format("{}: not JSON: {}", source_, report));
  // What follows the first is often its consequence.
  throw UsageError(fmt::format("{}:{}:{}: not JSON: {}", source_, errors[0].line, errors[0].column,
                               errors[0].message));
}

// jsoncpp keeps the last of several equal keys and says nothing, so a second, strict reader looks.
void JsonText::note_repeated_keys() const {
  Json::Value ignored;
  std::string report;
  if (make_reader(true)->parse(text_.data(), text_.data() + text_.size(), &ignored, &report))
    return;
  for (const SyntaxError& error : split_errors(report))
    if (error.message.starts_with("Duplicate key: "))
      note({error.line, error.column},
           fmt::format("key {} is given more than once; the last one counts",
                       error.message.substr(std::string_view("Duplicate key: ").size())));
}

TextPlace JsonText::place_at(std::size_t offset) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return {int(after - line_starts_.begin()), int(offset - *(after - 1)) + 1};
}

TextPlace JsonText::place_of(const Json::Value& value) const {
  return place_at(std::size_t(value.getOffsetStart()));
}

TextPlace JsonText::place_of_key(const Json::Value& member) const {
  // Backward over `: ` to the key's closing quote, unless a comment stands between, and on to the
  // opening one.
  const std::string_view before =
      std::string_view(text_).substr(0, std::size_t(member.getOffsetStart()));
  const std::size_t colon = before.find_last_not_of(" \t\r\n");
  if (colon == std::string_view::npos || before[colon] != ':') return place_of(member);
  const std::size_t quote = before.substr(0, colon).find_last_not_of(" \t\r\n");
  if (quote == std::string_view::npos || before[quote] != '"') return place_at(colon);
  const std::size_t open = before.substr(0, quote).rfind('"');
  return place_at(open == std::string_view::npos ? quote : open);
}

void JsonText::error(TextPlace place, const std::string& key, const std::string& message) {
  errors_.push_back({source_, place.line, place.column, key, message});
}

void JsonText::note(TextPlace place, const std::string& message) const {
  if (note_) note_(Problem{source_, place.line, place.column, {}, message}.text());
}

void JsonText::throw_errors() const {
  if (!errors_.empty()) throw ProblemsError(errors_);
}

}  // namespace norn
