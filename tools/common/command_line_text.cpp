// SPDX-License-Identifier: Apache-2.0
// The table of options as --help.
#include "tools/common/called_as.h"
#include "tools/common/command_line.h"
#include "tools/common/command_line_pages.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr std::size_t kColumn = 30;  // where the texts of options begin

std::string remark_on(const Option& option) {
  std::string remark;
  if (option.required) remark += " (required)";
  if (option.repeatable) remark += " (repeatable)";
  if (!option.default_text.empty()) remark += fmt::format(" [{}]", option.default_text);
  return remark;
}

std::string help_entry(const Option& option) {
  std::string head = "  ";
  if (!option.flag.empty()) head.append(option.flag).append(", ");
  head += option.name + shown_value(option);
  const std::string text = wrap(option.text + remark_on(option), kColumn);
  if (head.size() + 2 > kColumn) return fmt::format("{}\n{:{}}{}\n", head, "", kColumn, text);
  return fmt::format("{:<{}}{}\n", head, kColumn, text);
}

std::vector<std::string> sections_of(const std::vector<Option>& options) {
  std::vector<std::string> sections;
  for (const Option& option : options)
    if (std::find(sections.begin(), sections.end(), option.section) == sections.end())
      sections.push_back(option.section);
  return sections;
}

}  // namespace

std::string wrap(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t used = indent;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word(text.data() + at, end - at);
    if (used > indent && used + 1 + word.size() > width) {
      out += '\n';
      out.append(indent, ' ');
      used = indent;
    } else if (used > indent) {
      out += ' ';
      ++used;
    }
    out += word;
    used += word.size();
    at = end + 1;
  }
  return out;
}

std::string shown_value(const Option& option) {
  if (option.value.empty()) return {};
  return option.bare_value.empty() ? " " + option.value : fmt::format(" [{}]", option.value);
}

std::string CommandLine::help() const {
  std::string out = fmt::format("{}: {}\n\nUsage: {}\n", called_as(program_), wrap(summary_, 0),
                                as_called(program_, usage_));
  for (const std::string& section : sections_of(options_)) {
    out += fmt::format("\n{}\n", section);
    for (const Option& option : options_)
      if (option.section == section) out += help_entry(option);
  }
  out += "\nHelp\n";
  for (const Option& option : common_) out += help_entry(option);
  for (const std::string& remark : remarks_) out += fmt::format("\n{}\n", wrap(remark, 0));
  if (!examples_.empty()) out += "\nExamples\n";
  for (const Example& example : examples_)
    out +=
        fmt::format("  # {}\n  {}\n", wrap(example.text, 4), as_called(program_, example.command));
  std::string codes;
  for (const ExitCodeText& code : exit_codes())
    codes += fmt::format("{}{} {}", codes.empty() ? "" : ", ", code.code, code.words);
  return out + fmt::format("\n{}\n", wrap("Exit codes: " + codes + ".", 0));
}

}  // namespace norn::tools
