// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "first_line.h"
#include "norn/data/text_reader.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// One text format each: how a line becomes a row.
namespace norn {

constexpr const char* kCorrect = "correct the line";

/// A line that does not follow its format, and what to do; the reader adds file and line number.
struct Malformed {
  std::string problem;
  std::string step = kCorrect;
};

class RowParser {
 public:
  virtual ~RowParser() = default;
  /// Looks at the first line of the text. True when it is a header, which holds no row. `second`:
  /// the line after it, empty where there is none.
  virtual bool take_header(std::string_view, std::string_view /*second*/) { return false; }
  /// Throws Malformed.
  virtual void parse(std::string_view line, TextRow& row) = 0;
  virtual std::optional<LibsvmHeader> header() const { return std::nullopt; }
  /// Where take_header() had to guess.
  virtual const FirstLine* first_line() const { return nullptr; }
  /// What to say of times, after the last row, where their column was guessed.
  virtual std::optional<std::string> time_doubt() const { return std::nullopt; }
};

/// Makes parsers for TextFormatInfo.
template <typename Parser>
std::unique_ptr<RowParser> make_parser(const TextOptions& options) {
  return std::make_unique<Parser>(options);
}

/// Whether a text is a list: lines of an example and items, none of them with a colon or comma, in
/// each item a digit, and items of some example. `ahead`: lines after the first; the last may be
/// cut.
bool is_list(std::string_view line, std::string_view ahead);

/// What separates words of a line.
constexpr std::string_view kBlanks = " \t";
/// Takes the next word off the front of `rest`; empty at the end.
std::string_view next_word(std::string_view& rest);

/// A finite number; throws Malformed.
float parse_value(std::string_view text);
/// Throws Malformed for a label that is longer than a label may be.
void check_length(std::string_view label, const char* what);
/// The same for the label of an example or a feature that is empty, or has a tab in it, which ends
/// labels in index files.
void check_label(std::string_view label, const char* what);
/// For messages: the beginning of a text, quoted.
std::string excerpt(std::string_view text);
/// `"caf\xe9": the byte 0xe9 is no UTF-8`; nothing: all are.
std::optional<std::string> utf8_problem(std::string_view label);

}  // namespace norn
