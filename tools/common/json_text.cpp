// SPDX-License-Identifier: Apache-2.0
// Strings of JSON.
#include "tools/common/json_text.h"

#include <fmt/format.h>

namespace norn::tools {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// The bytes of the UTF-8 character that begins at `at`; 0 when there is none.
std::size_t character_length(std::string_view text, std::size_t at) {
  const unsigned first = byte_at(text, at);
  const std::size_t length = first < 0x80u                      ? 1
                             : first >= 0xC2u && first < 0xE0u  ? 2
                             : first >= 0xE0u && first < 0xF0u  ? 3
                             : first >= 0xF0u && first <= 0xF4u ? 4
                                                                : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, at + i) & 0xC0u) != 0x80u) return 0;
  if (length < 3) return length;
  // Overlong forms, surrogates, and what lies beyond the last character.
  const unsigned second = byte_at(text, at + 1);
  const bool wrong = (first == 0xE0u && second < 0xA0u) || (first == 0xEDu && second >= 0xA0u) ||
                     (first == 0xF0u && second < 0x90u) || (first == 0xF4u && second >= 0x90u);
  return wrong ? 0 : length;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    const char c = text[at];
    if (length == 0)
      out += "\\ufffd";
    else if (c == '"' || c == '\\')
      out.append({'\\', c});
    else if (c == '\n')
      out += "\\n";
    else if (byte_at(text, at) < 0x20u)
      out += fmt::format("\\u{:04x}", byte_at(text, at));
    else
      out += text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  return out + '"';
}

}  // namespace norn::tools
