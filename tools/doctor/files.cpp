// SPDX-License-Identifier: Apache-2.0
// Reading /proc and /sys.
#include "tools/doctor/files.h"

#include "src/base/text.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

namespace norn::tools {

std::optional<std::string> read_text(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.erase(text.find_last_not_of(" \t\n\0") + 1);
  return text;
}

std::optional<std::string> value_after(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    name.erase(name.find_last_not_of(" \t") + 1);
    if (name != key) continue;
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? std::string() : line.substr(first);
  }
  return std::nullopt;
}

std::vector<int> parse_cores(const std::string& list) {
  std::vector<int> cores;
  std::istringstream parts(list);
  std::string part;
  while (std::getline(parts, part, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_integer(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer(part.substr(dash + 1));
    if (!first || !last) continue;
    for (long long c = *first; c <= *last; ++c) cores.push_back(int(c));
  }
  return cores;
}

std::string cores_text(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[i]);
    if (end - i > 1) text += fmt::format("-{}", cores[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace norn::tools
