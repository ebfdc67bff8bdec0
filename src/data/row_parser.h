// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/text_reader.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

/// One text format each: how a line becomes a row.
namespace norn {

/// A line that does not follow its format; the reader adds file, line number and next step.
struct Malformed {
  std::string problem;
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
};

std::unique_ptr<RowParser> make_dsstne_parser(const TextOptions& options);
std::unique_ptr<RowParser> make_libsvm_parser(const TextOptions& options);
std::unique_ptr<RowParser> make_column_parser(const TextOptions& options, char separator);
std::unique_ptr<RowParser> make_list_parser(const TextOptions& options);

/// Whether a line may be one of a list: an example and items, none of them with a colon or comma,
/// and in each item a digit.
bool looks_like_list(std::string_view line);

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

}  // namespace norn
