// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "norn/data/text_format.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Text that lists examples and their features: formats in docs/user/formats.md.
namespace norn {

/// What becomes of the values beside features.
enum class TextValues {
  ignore,   ///< they must be numbers, but are dropped
  require,  ///< every feature needs one
  optional  ///< features without one get TextOptions::missing_value
};

/// Since 1970, without leap seconds.
using Microseconds = std::int64_t;

/// ISO 8601: 2026-01-31, 20260131, 2026-01-31T12:30[:05[.25]][Z|+01:00], a blank for the T as well,
/// UTC where no zone is given. Or a Unix time: seconds below 10^11, else milliseconds. Nothing: it
/// is neither.
std::optional<Microseconds> parse_time(std::string_view text);

enum class HeaderLine {
  automatic,  ///< there is one when a column is named, or when the first line's value is no number
  present,
  absent
};

struct TextOptions {
  TextFormat format;
  TextValues values = TextValues::ignore;
  float missing_value = 0;
  Index skip_malformed = 0;                ///< this many malformed lines are passed over
  std::string format_option = "`format`";  ///< what its user calls `format`, for messages
  bool any_bytes = false;  ///< labels that are no UTF-8 are taken, as models of old files have some

  // CSV and TSV. Columns by number, from 1, or by the name that the header line gives them.
  HeaderLine header = HeaderLine::automatic;
  std::string example_column = "1";
  std::string feature_column = "2";
  std::string value_column = "3";
  bool times = false;       ///< whether each line has a time, in this column
  std::string time_column;  ///< empty: the fourth, which a header line must call a time
};

/// One line. The views are valid until the next row is read.
struct TextRow {
  std::string_view example;                ///< LibSVM: the example's number, from 0
  std::vector<std::string_view> features;  ///< in their order in the text; empty for LibSVM
  std::vector<Column> numbers;             ///< LibSVM: the features
  std::vector<float> values;               ///< one a feature, or empty with TextValues::ignore
  std::vector<std::string_view> labels;    ///< LibSVM: what the example is labelled with
  std::vector<Microseconds> times;         ///< one a feature, or empty without TextOptions::times
};

/// The first line of extreme-classification text: `examples features labels`.
struct LibsvmHeader {
  Index examples = 0;
  Index features = 0;
  Index labels = 0;
};

struct FirstLine;
class RowParser;
class TextLines;

/// Reads rows of a file, of the files in a folder (sorted by name), or of text in memory; gzip is
/// unpacked. Malformed lines, values that are not finite, labels that are no UTF-8 and labels with
/// separators in them throw DataError naming file, line, value and next step.
class TextReader {
 public:
  TextReader(const std::filesystem::path& path, const TextOptions& options);
  TextReader(std::string name, std::string_view text, const TextOptions& options);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// False after the last row. Empty lines are passed over.
  bool next(TextRow& row);
  /// The format, found out when it was to be.
  TextFormat format() const { return format_; }
  std::optional<LibsvmHeader> header() const;
  /// Of CSV and TSV whose columns nobody has named, and of which nobody has said whether they begin
  /// with names; else null.
  const FirstLine* first_line() const;
  /// What to say of times whose column nobody has named, where they seem to be none; to be asked
  /// after the last row.
  std::optional<std::string> time_doubt() const;
  /// The path or name that it was opened with.
  const std::string& name() const { return name_; }
  /// file:line of the row read last.
  std::string place() const;
  /// Malformed lines passed over so far, and what was wrong with the first.
  Index malformed() const { return malformed_; }
  const std::string& first_malformed() const { return first_malformed_; }
  Index bytes_read() const;
  Index bytes_total() const;

 private:
  void begin();
  bool next_line();
  void require_utf8(const TextRow& row) const;

  TextOptions options_;
  TextFormat format_;
  std::string name_;
  std::unique_ptr<TextLines> lines_;
  std::unique_ptr<RowParser> parser_;
  std::string_view line_;
  std::string header_line_;  // a later file of the folder may repeat it
  bool line_waits_ = false;
  Index malformed_ = 0;
  std::string first_malformed_;
};

}  // namespace norn
