// SPDX-License-Identifier: Apache-2.0
// Words, numbers and sizes as people write and read them.

#include "src/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
}

/// Insertions, deletions, replacements and swaps of neighbours that turn a into b, no letter being
/// edited twice (the "optimal string alignment" form of Damerau's distance).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table d[i][j]: distance of the first i letters of a and the first j of b.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

/// Bytes of the UTF-8 letter that begins `text`, 1 to 4, and its number; 0 bytes where none does.
std::pair<std::size_t, char32_t> first_letter(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, first};
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return {0, 0};
  char32_t letter = first & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    letter = letter << 6 | (byte(i) & 0x3fu);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = letter >= 0xd800 && letter <= 0xdfff;
  if (letter < kLeast[size] || letter > 0x10ffff || surrogate) return {0, 0};
  return {size, letter};
}

/// Controls, U+2028 and U+2029, which end lines, and what turns the order of letters round.
bool is_obeyed(char32_t letter) {
  return letter < 0x20 || (letter >= 0x7f && letter < 0xa0) || letter == 0x2028 ||
         letter == 0x2029 || (letter >= 0x202a && letter <= 0x202e) ||
         (letter >= 0x2066 && letter <= 0x2069) || letter == 0x200e || letter == 0x200f;
}

/// `text` without a leading plus sign that stands directly before a number ("+1" is common in
/// LibSVM files; std::from_chars refuses it).
std::string_view without_plus(std::string_view text) {
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return plus ? text.substr(1) : text;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string> nearest_word(std::string_view word,
                                        std::span<const std::string> candidates) {
  constexpr std::size_t kLongestGuessed = 256;  // the distance takes the product of both lengths
  if (word.size() > kLongestGuessed) return std::nullopt;
  const std::string wanted = lower_case(word);
  const std::size_t limit = std::max<std::size_t>(wanted.size() / 3, 2);
  const std::string* nearest = nullptr;
  std::size_t least = limit + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > wanted.size() + limit) continue;
    const std::size_t distance = edit_distance(wanted, lower_case(candidate));
    // A short word whose letters all differ is near to nothing.
    if (distance < least && distance < std::max(wanted.size(), candidate.size())) {
      least = distance;
      nearest = &candidate;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates,
                         std::string_view otherwise) {
  const std::optional<std::string> nearest = nearest_word(word, candidates);
  return nearest ? fmt::format("; did you mean \"{}\"?", *nearest) : std::string(otherwise);
}

std::size_t find_not_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::size_t size = first_letter(text.substr(at)).first;
    if (size == 0) return at;
    at += size;
  }
  return std::string_view::npos;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t size = first_letter(text).first;
    valid += size > 0 ? text.substr(0, size) : std::string_view("\xef\xbf\xbd");
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return valid;
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto [size, letter] = first_letter(text);
    const std::size_t taken = std::max<std::size_t>(size, 1);
    if (size > 0 && !is_obeyed(letter)) {
      result += text.substr(0, taken);
    } else {
      for (const char c : text.substr(0, taken))
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(taken);
  }
  return result;
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string human_bytes(double bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  // 1023.95 would print as 1024.0.
  while (std::abs(bytes) >= (unit == 0 ? 1023.5 : 1023.95) && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string with_thousands(long long value) {
  std::string digits = fmt::format("{}", value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string counted(long long count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds) || std::abs(seconds) > 1e15) return "unknown";
  const char* const sign = seconds < 0 ? "-" : "";
  const double size = std::abs(seconds);
  if (size < 9.95) return fmt::format("{}{:.1f} s", sign, size);
  const long long whole = std::llround(size);
  if (whole < 60) return fmt::format("{}{} s", sign, whole);
  if (whole < 3600) return fmt::format("{}{} min {:02} s", sign, whole / 60, whole % 60);
  return fmt::format("{}{} h {:02} min", sign, whole / 3600, whole % 3600 / 60);
}

std::optional<double> parse_double(std::string_view text) {
  const std::string_view number = without_plus(text);
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, problem] = std::from_chars(number.data(), end, value);
  if (stop != end || problem == std::errc::invalid_argument) return std::nullopt;
  if (problem == std::errc::result_out_of_range) {
    // Too small is a number (0 or the nearest subnormal one), too large is not.
    value = std::strtod(std::string(number).c_str(), nullptr);
    if (std::isinf(value)) return std::nullopt;
  }
  return value;
}

std::optional<long long> parse_integer(std::string_view text) {
  const std::string_view number = without_plus(text);
  long long value = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, problem] = std::from_chars(number.data(), end, value);
  if (stop != end || problem != std::errc()) return std::nullopt;
  return value;
}

}  // namespace norn
