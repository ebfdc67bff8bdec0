// SPDX-License-Identifier: Apache-2.0
// Errors in parts.
#include "norn/base/problem.h"

#include "src/base/text.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace norn {
namespace {

bool exists(std::string_view name) {
  std::error_code ignored;
  return std::filesystem::exists(name, ignored);
}

// Whether the words before a colon are a file's name: messages about layers and data sets begin
// with words and quotation marks.
bool looks_like_file(std::string_view name) {
  if (name.empty() || name.find('"') != std::string_view::npos) return false;
  if (exists(name)) return true;
  return name.find(' ') == std::string_view::npos && name.find_first_of("./") != name.npos;
}

// The number after the last colon of `head`, which is cut off; 0 when there is none.
int cut_number(std::string_view& head) {
  const std::size_t colon = head.rfind(':');
  if (colon == std::string_view::npos) return 0;
  const std::string_view digits = head.substr(colon + 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return 0;
  const int number = int(parse_integer(digits).value_or(0));
  head = head.substr(0, colon);
  return number;
}

// By line; what has none, and so concerns the whole text, comes first.
std::vector<Problem> sorted(std::vector<Problem> problems) {
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  return problems;
}

std::string text_of(const std::vector<Problem>& problems) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems) {
    if (lines.size() == ProblemsError::kMostShown) {
      lines.push_back(fmt::format("{} more errors are not shown; mend these first",
                                  problems.size() - lines.size()));
      break;
    }
    lines.push_back(problem.text());
  }
  return join(lines, "\n");
}

}  // namespace

std::string Problem::text() const {
  if (file.empty()) return message;
  if (line == 0) return fmt::format("{}: {}", file, message);
  return fmt::format("{}:{}: {}", file, line, message);
}

std::string Problem::suggestion() const {
  constexpr std::string_view kHint = "did you mean \"";
  const std::size_t at = message.find(kHint);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kHint.size();
  const std::size_t end = message.find("\"?", begin);
  return end == std::string::npos ? std::string() : message.substr(begin, end - begin);
}

Problem problem_of(std::string_view message) {
  Problem problem;
  problem.message = message;
  if (message.starts_with("--")) {
    problem.key = message.substr(0, message.find_first_of(" :,="));
    return problem;
  }
  if (message.starts_with('`')) {
    problem.key = message.substr(1, message.find('`', 1) - 1);
    return problem;
  }
  const std::size_t end = message.find(": ");
  if (end == std::string_view::npos) return problem;
  std::string_view head = message.substr(0, end);
  int line = 0;
  int column = 0;
  if (!exists(head)) {
    line = cut_number(head);
    if (const int before = line > 0 ? cut_number(head) : 0; before > 0) {
      column = line;
      line = before;
    }
  }
  if (!looks_like_file(head)) return problem;
  problem.file = head;
  problem.line = line;
  problem.column = column;
  problem.message = message.substr(end + 2);
  return problem;
}

ProblemsError::ProblemsError(std::vector<Problem> problems)
    : UsageError(text_of(sorted(problems))), problems_(sorted(std::move(problems))) {}

}  // namespace norn
