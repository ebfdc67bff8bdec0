// SPDX-License-Identifier: Apache-2.0
// CSV and TSV text with one entry a line: example, feature and perhaps a value in columns.

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
      : options_(options), separator_(separator), wanted_(2) {
    if (options.values != TextValues::ignore) wanted_ = 3;
    const std::array<const std::string*, 3> names = {
        &options_.example_column, &options_.feature_column, &options_.value_column};
    for (std::size_t i = 0; i < wanted_; ++i) {
      const auto number = parse_integer(*names[i]);
      if (number && *number < 1) {
        throw UsageError(fmt::format("column {}: columns are numbered from 1", *number));
      }
      if (number) columns_[i] = std::size_t(*number) - 1;
      named_[i] = !number;
    }
  }

  bool take_header(std::string_view line, std::string_view second) override {
    const bool named =
        std::any_of(named_.begin(), named_.begin() + wanted_, [](bool n) { return n; });
    if (options_.header == HeaderLine::absent) {
      if (named) throw UsageError("columns are named, but the text is said to have no header line");
      return false;
    }
    split(line);
    if (named) {
      find_columns();
      return true;
    }
    if (options_.header == HeaderLine::present) return true;
    if (wanted_ == 3) return value_field() && !parse_double(*value_field());
    return names_dropped_values(second);
  }

  void parse(std::string_view line, TextRow& row) override {
    split(line);
    const std::size_t needed = options_.values == TextValues::require ? wanted_ : 2;
    for (std::size_t i = 0; i < needed; ++i) {
      if (columns_[i] < fields_.size()) continue;
      throw Malformed{fmt::format("the line has {} columns, column {} is wanted", fields_.size(),
                                  columns_[i] + 1)};
    }
    row.example = fields_[columns_[0]];
    check_label(row.example, "example");
    row.features.push_back(fields_[columns_[1]]);
    check_label(row.features.back(), "feature");
    if (wanted_ < 3) return;
    const std::string_view value =
        columns_[2] < fields_.size() ? fields_[columns_[2]] : std::string_view{};
    const bool missing = value.empty() && options_.values == TextValues::optional;
    row.values.push_back(missing ? options_.missing_value : parse_value(value));
  }

 private:
  std::optional<std::string_view> value_field() const {
    if (columns_[2] >= fields_.size()) return std::nullopt;
    return fields_[columns_[2]];
  }

  /// Values that are dropped may be anything. The first line, which is cut already, names them when
  /// they are numbers from the second line on.
  bool names_dropped_values(std::string_view second) {
    if (columns_[0] == columns_[2] || columns_[1] == columns_[2]) return false;
    if (!value_field() || value_field()->empty() || parse_double(*value_field())) return false;
    try {
      split(second);
    } catch (const Malformed&) {
      return false;  // reported when it is read
    }
    return value_field() && parse_double(*value_field());
  }

  void find_columns() {
    const std::array<const std::string*, 3> names = {
        &options_.example_column, &options_.feature_column, &options_.value_column};
    const std::vector<std::string> known(fields_.begin(), fields_.end());
    for (std::size_t i = 0; i < wanted_; ++i) {
      if (!named_[i]) continue;
      const auto found = std::find(known.begin(), known.end(), *names[i]);
      if (found == known.end()) {
        throw UsageError(fmt::format("the header line has no column \"{}\"{} It has: {}", *names[i],
                                     did_you_mean(*names[i], known, "."), join(known)));
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
  std::size_t wanted_;
  std::array<std::size_t, 3> columns_ = {0, 1, 2};
  std::array<bool, 3> named_ = {};
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
