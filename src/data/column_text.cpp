// SPDX-License-Identifier: Apache-2.0
// CSV and TSV text with one entry a line: example, feature and perhaps a value and a time in
// columns.

#include "norn/base/error.h"
#include "row_parser.h"
#include "src/base/text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace norn {

namespace {

class ColumnParser final : public RowParser {
 public:
  ColumnParser(const TextOptions& options, char separator)
      : options_(options), separator_(separator) {
    wanted_ = {kExample, kFeature};
    if (options.values != TextValues::ignore) wanted_.push_back(kValue);
    if (options.times) wanted_.push_back(kTime);
    for (const std::size_t i : wanted_) {
      const auto number = parse_integer(name_of(i));
      if (number && *number < 1) {
        throw UsageError(fmt::format("column {}: columns are numbered from 1", *number));
      }
      if (number) columns_[i] = std::size_t(*number) - 1;
      named_[i] = !number;
    }
  }

  bool take_header(std::string_view line, std::string_view second) override {
    const bool header = is_header(line, second);
    if (header && options_.times && options_.time_column.empty()) {
      split(line);
      require_time_name();
    }
    return header;
  }

  const FirstLine* first_line() const override { return first_line_ ? &*first_line_ : nullptr; }

  std::optional<std::string> time_doubt() const override {
    constexpr Microseconds kYear1980 = 315'532'800'000'000;
    if (!latest_ || *latest_ >= kYear1980) return std::nullopt;
    return fmt::format(
        "times are read from column 4, as no other is given, and all are before 1980, the latest "
        "is {}; say which column has the times with `time_column`",
        excerpt(latest_text_));
  }

  void parse(std::string_view line, TextRow& row) override {
    split(line);
    for (const std::size_t i : wanted_) {
      if (columns_[i] < fields_.size()) continue;
      if (i == kValue && options_.values == TextValues::optional) continue;
      throw Malformed{fmt::format("the line has {} columns, column {} is wanted", fields_.size(),
                                  columns_[i] + 1),
                      i == kTime ? step_for_times() : kCorrect};
    }
    row.example = fields_[columns_[kExample]];
    check_label(row.example, "example");
    row.features.push_back(fields_[columns_[kFeature]]);
    check_label(row.features.back(), "feature");
    if (options_.times) row.times.push_back(time_of(fields_[columns_[kTime]]));
    if (options_.values == TextValues::ignore) return;
    const std::string_view value = field(kValue).value_or(std::string_view{});
    const bool missing = value.empty() && options_.values == TextValues::optional;
    row.values.push_back(missing ? options_.missing_value : parse_value(value));
  }

 private:
  enum Wanted : std::size_t { kExample, kFeature, kValue, kTime, kKinds };

  bool is_header(std::string_view line, std::string_view second) {
    const bool named = std::ranges::any_of(named_, [](bool n) { return n; });
    if (options_.header == HeaderLine::absent) {
      if (named) throw UsageError("columns are named, but the text is said to have no header line");
      return false;
    }
    split(line);
    if (named) {
      find_columns();
      return true;
    }
    const bool unnamed = has_unnamed();
    if (options_.header == HeaderLine::present) {
      if (unnamed) refuse_unnamed();
      return true;
    }
    first_line_.emplace().example = field(kExample).value_or("");
    first_line_->feature = field(kFeature).value_or("");
    const bool of_words = field(kExample) == "" && !(field(kValue) && is_number(*field(kValue)));
    first_line_->is_names = seems_header(second);
    if (unnamed && (first_line_->is_names || of_words)) refuse_unnamed();
    return first_line_->is_names;
  }

  /// Of a first line that is cut already.
  bool seems_header(std::string_view second) {
    if (options_.values != TextValues::ignore)
      return field(kValue) && !parse_double(*field(kValue));
    if (options_.times) return is_header_of(kTime, second, is_time);
    if (columns_[kExample] == columns_[kValue] || columns_[kFeature] == columns_[kValue])
      return false;
    return is_header_of(kValue, second, is_number);  // values that are dropped may be anything
  }

  /// Of examples or features, in a header line that is cut already.
  bool has_unnamed() const { return field(kExample) == "" || field(kFeature) == ""; }

  [[noreturn]] static bool refuse_unnamed() {
    throw UsageError(
        "the header line has no name for a column that is read, such as the row numbers that "
        "pandas writes; say which columns have examples and features");
  }

  std::string_view name_of(std::size_t i) const {
    const std::string& time = options_.time_column;
    const std::array<std::string_view, kKinds> names = {
        options_.example_column, options_.feature_column, options_.value_column,
        time.empty() ? std::string_view("4") : std::string_view(time)};
    return names[i];
  }

  /// Whether a column of that name may be one of times: "timestamp", "rated_at", "order date".
  static bool is_time_name(std::string_view name) {
    const std::string text = lower_case(name);
    constexpr std::array<std::string_view, 4> kWhole = {"day", "when", "ts", "at"};
    constexpr std::array<std::string_view, 4> kEnds = {"time", "date", "stamp", "_at"};
    const auto ends = [&text](std::string_view end) { return text.ends_with(end); };
    return text.starts_with("time") || text.starts_with("date") ||
           std::ranges::find(kWhole, text) != kWhole.end() || std::ranges::any_of(kEnds, ends);
  }

  /// Of a header line that is cut already, where nobody has said which column has the times.
  void require_time_name() const {
    const std::optional<std::string_view> name = field(kTime);
    if (name && is_time_name(*name)) return;
    const std::vector<std::string> known(fields_.begin(), fields_.end());
    throw UsageError(fmt::format(
        "a split by time needs the column of the times, which is column 4 where none is given, but "
        "the header line {}; say which it is with `time_column`. It has: {}",
        name ? fmt::format("calls that {}", excerpt(*name))
             : fmt::format("has {} columns", fields_.size()),
        join(known)));
  }

  std::optional<std::string_view> field(std::size_t i) const {
    if (columns_[i] >= fields_.size()) return std::nullopt;
    return fields_[columns_[i]];
  }

  static bool is_number(std::string_view text) { return parse_double(text).has_value(); }
  static bool is_time(std::string_view text) { return parse_time(text).has_value(); }

  std::string step_for_times() const {
    return options_.time_column.empty()
               ? "correct the line, or say which column has the times with `time_column`"
               : kCorrect;
  }

  Microseconds time_of(std::string_view text) {
    const auto time = parse_time(text);
    if (!time)
      throw Malformed{
          fmt::format("the time {} is no ISO date (2026-01-31, 2026-01-31T12:30:00Z) and no Unix "
                      "time in seconds "
                      "or milliseconds",
                      excerpt(text)),
          step_for_times()};
    if (options_.time_column.empty() && (!latest_ || *time > *latest_)) {
      latest_ = time;
      latest_text_ = text;
    }
    return *time;
  }

  /// The first line, which is cut already, names a column when from the second line on that holds
  /// what it should.
  bool is_header_of(std::size_t i, std::string_view second, bool (*fits)(std::string_view)) {
    if (!field(i) || field(i)->empty() || fits(*field(i))) return false;
    try {
      split(second);
    } catch (const Malformed&) {
      return false;  // reported when it is read
    }
    return field(i) && fits(*field(i));
  }

  void find_columns() {
    const std::vector<std::string> known(fields_.begin(), fields_.end());
    for (const std::size_t i : wanted_) {
      if (!named_[i]) continue;
      const auto found = std::ranges::find(known, name_of(i));
      if (found == known.end()) {
        throw UsageError(fmt::format("the header line has no column \"{}\"{} It has: {}",
                                     name_of(i), did_you_mean(name_of(i), known, "."),
                                     join(known)));
      }
      columns_[i] = std::size_t(found - known.begin());
    }
  }

  /// Cuts the line into fields. In CSV a field may stand in double quotes, with "" for a quote in
  /// it.
  void split(std::string_view line) {
    fields_.clear();
    unquoted_.clear();
    // Views into unquoted_ must survive its growth: it never grows beyond the line.
    unquoted_.reserve(line.size());
    while (true) {
      const bool quoted = separator_ == ',' && !line.empty() && line.front() == '"';
      const std::size_t end = quoted ? add_quoted(line) : line.find(separator_);
      if (!quoted) fields_.push_back(line.substr(0, end));
      if (end >= line.size()) return;
      line = line.substr(end + 1);
      if (line.empty()) {
        fields_.push_back(line);
        return;
      }
    }
  }

  /// Adds the quoted field at the beginning of the line; returns the position of the separator
  /// after it, or the line's length.
  std::size_t add_quoted(std::string_view line) {
    const std::size_t from = unquoted_.size();
    std::size_t at = 1;
    for (;; ++at) {
      if (at >= line.size()) throw Malformed{fmt::format("{} has no closing quote", excerpt(line))};
      if (line[at] == '"') {
        if (at + 1 >= line.size() || line[at + 1] != '"') break;
        ++at;
      }
      unquoted_ += line[at];
    }
    ++at;
    if (at < line.size() && line[at] != separator_) {
      throw Malformed{fmt::format("{}: text follows a closing quote", excerpt(line))};
    }
    fields_.push_back(std::string_view(unquoted_).substr(from));
    return at;
  }

  TextOptions options_;
  char separator_;
  std::vector<std::size_t> wanted_;
  std::array<std::size_t, kKinds> columns_ = {0, 1, 2, 3};
  std::array<bool, kKinds> named_ = {};
  std::optional<FirstLine> first_line_;
  std::optional<Microseconds> latest_;  // where the column of times is a guess
  std::string latest_text_;
  std::vector<std::string_view> fields_;
  std::string unquoted_;
};

template <char separator>
std::unique_ptr<RowParser> make_column_parser(const TextOptions& options) {
  return std::make_unique<ColumnParser>(options, separator);
}

constexpr std::string_view kColumns = "example, feature and perhaps value in columns";

}  // namespace

extern constinit const TextFormatInfo kCsvText = {
    .name = "csv",
    .title = "CSV",
    .help = kColumns,
    .endings = {".csv"},
    .entry_a_line = true,
    .recognises =
        [](std::string_view line, std::string_view) {
          return line.find('\t') == std::string_view::npos &&
                 line.find(',') != std::string_view::npos;
        },
    .make_parser = make_column_parser<','>};

extern constinit const TextFormatInfo kTsvText = {
    .name = "tsv",
    .title = "TSV",
    .help = kColumns,
    .endings = {".tsv"},
    .entry_a_line = true,
    .recognises = [](std::string_view line,
                     std::string_view) { return std::ranges::count(line, '\t') > 1; },
    .make_parser = make_column_parser<'\t'>};

}  // namespace norn
