// SPDX-License-Identifier: Apache-2.0
// Parsing with jsoncpp, and finding lines.
#include "src/nn/json_text.h"

#include "norn/base/error.h"
#include "norn/base/text.h"

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
      note(error.line,
           fmt::format("key {} is given more than once; the last one counts",
                       error.message.substr(std::string_view("Duplicate key: ").size())));
}

int JsonText::line_at(std::size_t offset) const {
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  return int(after - line_starts_.begin());
}

int JsonText::line_of(const Json::Value& value) const {
  return line_at(std::size_t(value.getOffsetStart()));
}

int JsonText::line_of_key(const Json::Value& member) const {
  // Backward over `: ` to the key's closing quote, unless a comment stands between.
  const std::string_view before =
      std::string_view(text_).substr(0, std::size_t(member.getOffsetStart()));
  const std::size_t colon = before.find_last_not_of(" \t\r\n");
  if (colon == std::string_view::npos || before[colon] != ':') return line_of(member);
  const std::size_t quote = before.substr(0, colon).find_last_not_of(" \t\r\n");
  return line_at(quote == std::string_view::npos ? colon : quote);
}

std::string JsonText::place(int line) const {
  return line > 0 ? fmt::format("{}:{}", source_, line) : source_;
}

void JsonText::error(int line, const std::string& message) {
  errors_.push_back({line, fmt::format("{}: {}", place(line), message)});
}

void JsonText::note(int line, const std::string& message) const {
  if (note_) note_(fmt::format("{}: {}", place(line), message));
}

void JsonText::throw_errors() {
  if (errors_.empty()) return;
  std::stable_sort(errors_.begin(), errors_.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  std::vector<std::string> lines;
  for (const Problem& problem : errors_) lines.push_back(problem.text);
  throw UsageError(join(lines, "\n"));
}

}  // namespace norn
