// SPDX-License-Identifier: Apache-2.0
// From the library's settings to options.
#include "tools/common/setting_names.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace norn::tools {
namespace {

bool is_setting(std::string_view word) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !word.empty() && word.front() >= 'a' && word.front() <= 'z' &&
         std::ranges::all_of(word, fits);
}

}  // namespace

std::string with_options(std::string message) {
  std::size_t from = 0;
  while ((from = message.find('`', from)) != std::string::npos) {
    const std::size_t end = message.find('`', from + 1);
    if (end == std::string::npos) break;
    std::string word = message.substr(from + 1, end - from - 1);
    if (!is_setting(word)) {
      from = end;  // which may begin a setting itself
      continue;
    }
    std::ranges::replace(word, '_', '-');
    message.replace(from, end + 1 - from, "--" + word);
    from += word.size() + 2;
  }
  return message;
}

Problem in_options(Problem problem) {
  const bool of_setting = problem.message.starts_with('`');
  problem.message = with_options(std::move(problem.message));
  if (of_setting) problem.key = problem_of(problem.message).key;
  return problem;
}

}  // namespace norn::tools
