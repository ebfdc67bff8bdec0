// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Small things done with words: case, distance, numbers, sizes.
namespace norn {

/// ASCII lower case; other bytes stay as they are.
std::string lower_case(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// The candidate nearest to `word` by Damerau-Levenshtein distance, ignoring case; nothing when
/// none is near (more than a third of the letters differ, at least 2), or
/// `word` has more than 256 bytes.
std::optional<std::string> nearest_word(std::string_view word,
                                        std::span<const std::string> candidates);

/// `; did you mean "X"?` when a candidate is near, else `otherwise`.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates,
                         std::string_view otherwise = {});

/// Text of others as one line that no terminal obeys: control characters, breaks of lines and of
/// reading order, and bytes that are not UTF-8 become \x1b and the like.
std::string printable(std::string_view text);

/// The text with the replacement character, U+FFFD, for every byte that is no UTF-8: what writers
/// of JSON and other readers agree on.
std::string valid_utf8(std::string_view text);

/// Where the first byte that is no UTF-8 stands; npos: all are.
std::size_t find_not_utf8(std::string_view text);

std::string join(std::span<const std::string> words, std::string_view separator = ", ");

/// 1536 -> "1.5 KiB".
std::string human_bytes(double bytes);
/// 27278 -> "27,278".
std::string with_thousands(long long value);
/// (1, "rank") -> "1 rank", (3, "rank") -> "3 ranks".
std::string counted(long long count, std::string_view one);
/// Seconds as "1.5 s", "12 s", "3 min 20 s", "2 h 05 min"; "unknown" when not finite.
std::string human_seconds(double seconds);

/// The whole text as a number, or nothing: no leading or trailing characters are allowed, but for
/// one plus sign. parse_double also reads "inf" and "nan": whoever wants finite numbers checks
/// that.
std::optional<double> parse_double(std::string_view text);
std::optional<long long> parse_integer(std::string_view text);

}  // namespace norn
