// SPDX-License-Identifier: Apache-2.0
// What the text formats share: values, labels, and the words for what is wrong with them.

#include "row_parser.h"

#include "norn/data/label_index.h"
#include "src/base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace norn {

std::string_view next_word(std::string_view& rest) {
  const std::size_t begin = rest.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return rest = {};
  const std::size_t end = rest.find_first_of(kBlanks, begin);
  const std::string_view word = rest.substr(begin, end - begin);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end);
  return word;
}

float parse_value(std::string_view text) {
  double wide = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, wide);
  if (result.ptr != end || result.ec == std::errc::invalid_argument || text.empty()) {
    throw Malformed{fmt::format("the value {} is not a number", excerpt(text))};
  }
  const float value = float(wide);
  if (result.ec != std::errc{} || !std::isfinite(value)) {
    throw Malformed{fmt::format("the value {} is not a finite 32-bit number", excerpt(text))};
  }
  return value;
}

void check_length(std::string_view label, const char* what) {
  if (label.size() > LabelIndex::kLongestLabel) {
    throw Malformed{fmt::format("the name of the {} {} has {} bytes, more than {}", what,
                                excerpt(label), label.size(), LabelIndex::kLongestLabel)};
  }
}

void check_label(std::string_view label, const char* what) {
  if (label.empty()) throw Malformed{fmt::format("the {} has no name", what)};
  check_length(label, what);
  if (label.find('\t') != std::string_view::npos)
    throw Malformed{fmt::format("the {} {} has a tab in its name, which ends names in index files",
                                what, excerpt(label))};
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::size_t end = std::min(kShown, text.size());
  // A letter is shown whole or not at all.
  while (end < text.size() && end > 0 && (text[end] & 0xc0) == 0x80) --end;
  return fmt::format("\"{}{}\"", printable(text.substr(0, end)), end < text.size() ? "..." : "");
}

std::optional<std::string> utf8_problem(std::string_view label) {
  const std::size_t at = find_not_utf8(label);
  if (at == std::string_view::npos) return std::nullopt;
  return fmt::format("{}: the byte 0x{:02x} is no UTF-8", excerpt(label),
                     static_cast<unsigned char>(label[at]));
}

}  // namespace norn
