// SPDX-License-Identifier: Apache-2.0
// Finds out the format of a text and reads its rows.
#include "norn/data/text_reader.h"

#include "norn/base/error.h"
#include "norn/base/text.h"
#include "row_parser.h"
#include "text_lines.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

std::unique_ptr<RowParser> make_parser(TextFormat format, const TextOptions& options) {
  switch (format) {
    case TextFormat::libsvm:
      return make_libsvm_parser(options);
    case TextFormat::csv:
      return make_column_parser(options, ',');
    case TextFormat::tsv:
      return make_column_parser(options, '\t');
    case TextFormat::list:
      return make_list_parser(options);
    default:
      return make_dsstne_parser(options);
  }
}

std::string_view first_line(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// No colon anywhere, and items of some example. `ahead`: lines after the first; the last may be
/// cut.
bool is_list(std::string_view line, std::string_view ahead) {
  constexpr int kLooked = 100;  // lines
  if (line.find(':') != std::string_view::npos || ahead.find(':') != std::string_view::npos)
    return false;
  bool items = false;
  for (int looked = 0; looked < kLooked; ++looked) {
    if (!looks_like_list(line)) return false;
    items = items || line.find_first_of(kBlanks) < line.find_last_not_of(kBlanks);
    const std::size_t end = ahead.find('\n');
    if (end == std::string_view::npos) break;
    line = ahead.substr(0, end);
    while (line.ends_with('\r')) line.remove_suffix(1);
    ahead.remove_prefix(end + 1);
    if (line.empty()) break;
  }
  return items;
}

/// By the name's ending (.gz aside), else by what the first lines hold.
TextFormat recognise(std::string name, std::string_view line, std::string_view ahead,
                     const std::string& option) {
  name = lower_case(name);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (name.ends_with(".csv")) return TextFormat::csv;
  if (name.ends_with(".tsv")) return TextFormat::tsv;
  if (name.ends_with(".svm") || name.ends_with(".libsvm")) return TextFormat::libsvm;
  const auto tabs = std::count(line.begin(), line.end(), '\t');
  if (tabs == 1) return TextFormat::dsstne;
  if (tabs > 1) return TextFormat::tsv;
  if (is_list(line, ahead)) return TextFormat::list;
  TextRow row;
  const std::unique_ptr<RowParser> parser = make_libsvm_parser({});
  try {
    if (parser->take_header(line, {})) return TextFormat::libsvm;
  } catch (const Malformed&) {
    return TextFormat::libsvm;  // a header, whose numbers are judged when it is read
  }
  try {
    parser->parse(line, row);
    if (!row.numbers.empty()) return TextFormat::libsvm;
  } catch (const Malformed&) {
    // Another format, then.
  }
  if (line.find(',') != std::string_view::npos) return TextFormat::csv;
  throw DataError(
      fmt::format("{}: the first line {} follows no known format; say which with "
                  "{} dsstne, libsvm, list, csv or tsv",
                  name, excerpt(line), option));
}

}  // namespace

const char* format_name(TextFormat format) {
  constexpr const char* kNames[] = {"auto", "dsstne", "libsvm", "csv", "tsv", "list"};
  return kNames[int(format)];
}

TextReader::TextReader(const std::filesystem::path& path, const TextOptions& options)
    : options_(options),
      name_(path.string()),
      lines_(std::make_unique<TextLines>(text_files(path))) {
  begin();
}

TextReader::TextReader(std::string name, std::string_view text, const TextOptions& options)
    : options_(options), name_(name), lines_(std::make_unique<TextLines>(std::move(name), text)) {
  begin();
}

TextReader::~TextReader() = default;

std::optional<LibsvmHeader> TextReader::header() const {
  return parser_->header();
}

std::string TextReader::place() const {
  return fmt::format("{}:{}", lines_->file(), lines_->line_number());
}

Index TextReader::bytes_read() const {
  return lines_->bytes_read();
}

Index TextReader::bytes_total() const {
  return lines_->bytes_total();
}

void TextReader::begin() {
  format_ = options_.format;
  const bool any = next_line();
  if (format_ == TextFormat::automatic) {
    format_ = any ? recognise(lines_->file(), line_, lines_->ahead(), options_.format_option)
                  : TextFormat::dsstne;
  }
  parser_ = make_parser(format_, options_);
  if (!any) throw DataError(fmt::format("{}: holds no text; name a file with examples", name_));
  try {
    line_waits_ = !parser_->take_header(line_, first_line(lines_->ahead()));
    if (!line_waits_) header_line_ = line_;
  } catch (const Malformed& wrong) {
    throw DataError(fmt::format("{}: {}; correct the header line", place(), wrong.problem));
  } catch (const UsageError& wrong) {
    throw UsageError(fmt::format("{}: {}", place(), wrong.what()));
  }
}

/// The next line that is not empty.
bool TextReader::next_line() {
  while (lines_->next(line_)) {
    const bool repeated =
        lines_->line_number() == 1 && !header_line_.empty() && line_ == header_line_;
    if (!line_.empty() && !repeated) return true;
  }
  return false;
}

bool TextReader::next(TextRow& row) {
  while (line_waits_ || next_line()) {
    line_waits_ = false;
    row.features.clear();
    row.numbers.clear();
    row.values.clear();
    row.labels.clear();
    try {
      parser_->parse(line_, row);
      return true;
    } catch (const Malformed& wrong) {
      const std::string message = fmt::format("{}: {}", place(), wrong.problem);
      if (malformed_++ == 0) first_malformed_ = message;
      if (malformed_ > options_.skip_malformed) {
        throw DataError(
            fmt::format("{}; correct the line{}", message,
                        options_.skip_malformed == 0
                            ? ", or pass over malformed lines with `skip_malformed` N"
                            : fmt::format(", it is malformed line number {} and {} may be "
                                          "passed over",
                                          malformed_, options_.skip_malformed)));
      }
    }
  }
  return false;
}

}  // namespace norn
