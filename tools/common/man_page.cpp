// SPDX-License-Identifier: Apache-2.0
// Manual pages, from the table of options.
#include "tools/common/command_line_pages.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace norn::tools {
namespace {

constexpr std::size_t kWidth = 78;  // of the page's source

// Signs that roff would change.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '^')
      out += "\\(ha";
    else if (c == '~')
      out += "\\(ti";
    else if (c == '`')
      out += "\\(ga";
    else if (c == '"')
      out += "\\(dq";
    else
      out += c;
  }
  return out;
}

// A paragraph in short lines, none of which begins as a request does.
std::string paragraph(const std::string& text) {
  std::string out = wrap(roff(text), 0, kWidth);
  for (std::size_t line = 0; line < out.size(); line = out.find('\n', line)) {
    if (line > 0) ++line;
    if (out[line] == '.') out.insert(line, "\\&");
  }
  return out;
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return char(std::toupper(c)); });
  return text;
}

std::string sentence(std::string text) {
  text[0] = char(std::toupper(static_cast<unsigned char>(text[0])));
  if (text.back() != '.') text += '.';
  return text;
}

std::string option_entry(const Option& option) {
  std::string head;
  if (!option.flag.empty()) head = fmt::format("\\fB{}\\fR, ", roff(option.flag));
  head += fmt::format("\\fB{}\\fR", roff(option.name));
  if (!option.value.empty()) {
    const std::string value = fmt::format("\\fI{}\\fR", roff(option.value));
    head += option.bare_value.empty() ? fmt::format(" {}", value) : fmt::format(" [{}]", value);
  }
  std::string text = sentence(option.text);
  if (option.required) text += " Required.";
  if (option.repeatable) text += " It may be given several times.";
  if (!option.default_text.empty()) text += fmt::format(" Default: {}.", option.default_text);
  return fmt::format(".TP\n{}\n{}\n", head, paragraph(text));
}

std::string options_part(const CommandLine& line) {
  std::string text = ".SH OPTIONS\n";
  std::string section;
  for (const Option* option : line.every_option()) {
    if (option->section != section) text += fmt::format(".SS {}\n", roff(option->section));
    section = option->section;
    text += option_entry(*option);
  }
  return text;
}

}  // namespace

std::string man_page(const CommandLine& line) {
  std::string text = fmt::format(".TH {} 1 \"\" \"Norn {}\" \"Norn\"\n", upper_case(line.program()),
                                 roff(NORN_VERSION));
  std::string summary = line.summary();
  if (summary.back() == '.') summary.pop_back();
  summary[0] = char(std::tolower(static_cast<unsigned char>(summary[0])));
  text += fmt::format(".SH NAME\n{} \\- {}\n", line.program(), roff(summary));
  text += fmt::format(".SH SYNOPSIS\n{}\n", paragraph(line.usage()));
  text += fmt::format(".SH DESCRIPTION\n.B {}\n{}.\n", line.program(), paragraph(summary));
  for (const std::string& remark : line.remarks())
    text += fmt::format(".PP\n{}\n", paragraph(remark));
  text += options_part(line);
  text += ".SH EXIT STATUS\n";
  for (const ExitCodeText& code : exit_codes())
    text += fmt::format(".TP\n{}\n{}\n", code.code, paragraph(sentence(code.meaning)));
  text += ".SH EXAMPLES\n";
  for (std::size_t i = 0; i < line.examples().size(); ++i) {
    const Example& example = line.examples()[i];
    if (i > 0) text += ".PP\n";
    text += fmt::format("{}:\n.PP\n.nf\n.RS\n{}\n.RE\n.fi\n", paragraph(example.text),
                        roff(example.command));
  }
  text += ".SH SEE ALSO\n";
  std::string others;
  for (const char* program : {"evaluator", "importer", "predictor", "trainer"})
    if (line.program() != program)
      others += fmt::format("{}\\fB{}\\fR(1)", others.empty() ? "" : ",\n", program);
  return text + others + '\n';
}

}  // namespace norn::tools
