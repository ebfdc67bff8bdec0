// SPDX-License-Identifier: Apache-2.0
// The table of text formats.
#include "norn/base/error.h"
#include "norn/data/text_format.h"
#include "src/base/text.h"

#include <fmt/format.h>

namespace norn {

// Each is defined beside its parser.
extern const TextFormatInfo kDsstneText, kLibsvmText, kCsvText, kTsvText, kListText;

namespace {
constexpr const char* kAutomatic = "auto";
}

std::span<const TextFormatInfo* const> text_formats() {
  static constexpr std::array kFormats = {&kDsstneText, &kLibsvmText, &kCsvText, &kTsvText,
                                          &kListText};
  return kFormats;
}

std::vector<std::string> text_format_names(bool TextFormatInfo::*fact) {
  std::vector<std::string> names;
  for (const TextFormatInfo* format : text_formats())
    if (fact == nullptr || format->*fact) names.emplace_back(format->name);
  return names;
}

std::string text_formats_help() {
  std::string text;
  for (std::size_t i = 0; i < text_formats().size(); ++i) {
    const TextFormatInfo& format = *text_formats()[i];
    const bool as_next =
        i + 1 < text_formats().size() && text_formats()[i + 1]->help == format.help;
    const bool is_last = i + 1 == text_formats().size();
    text += as_next ? fmt::format("{}, ", format.name)
                    : fmt::format("{}: {}{}", format.name, format.help, is_last ? "" : "; ");
  }
  return text;
}

TextFormat TextFormat::named(std::string_view name) {
  if (name == kAutomatic) return {};
  for (const TextFormatInfo* format : text_formats())
    if (name == format->name) return TextFormat(*format);
  throw UsageError(fmt::format("\"{}\" is no text format; take auto or one of {}", name,
                               join(text_format_names())));
}

std::vector<std::string> TextFormat::words() {
  std::vector<std::string> words = text_format_names();
  words.insert(words.begin(), kAutomatic);
  return words;
}

}  // namespace norn
