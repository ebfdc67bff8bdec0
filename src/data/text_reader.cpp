// SPDX-License-Identifier: Apache-2.0
// Finds out the format of a text and reads its rows.
#include "norn/data/text_reader.h"

#include "norn/base/error.h"
#include "row_parser.h"
#include "src/base/text.h"
#include "text_lines.h"

#include <utility>

#include <fmt/format.h>

namespace norn {

namespace {

std::string_view up_to_line_end(std::string_view text) {
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// By the name's ending (.gz aside), else by what the first lines hold.
TextFormat recognise(std::string name, std::string_view line, std::string_view ahead,
                     const std::string& option) {
  name = lower_case(name);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  for (const TextFormatInfo* format : text_formats())
    for (const std::string_view ending : format->endings)
      if (!ending.empty() && name.ends_with(ending)) return TextFormat(*format);
  for (const TextFormatInfo* format : text_formats())
    if (format->recognises(line, ahead)) return TextFormat(*format);
  std::vector<std::string> names = text_format_names();
  const std::string last = std::move(names.back());
  names.pop_back();
  throw DataError(
      fmt::format("{}: the first line {} follows no known format; say which with {} {} or {}", name,
                  excerpt(line), option, join(names), last));
}

}  // namespace

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

const FirstLine* TextReader::first_line() const {
  return parser_->first_line();
}

std::optional<std::string> TextReader::time_doubt() const {
  return parser_->time_doubt();
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
  if (format_.is_automatic()) {
    format_ = any ? recognise(lines_->file(), line_, lines_->ahead(), options_.format_option)
                  : TextFormat(*text_formats().front());
  }
  parser_ = format_->make_parser(options_);
  if (!any) throw DataError(fmt::format("{}: holds no text; name a file with examples", name_));
  try {
    line_waits_ = !parser_->take_header(line_, up_to_line_end(lines_->ahead()));
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

/// Columns that nobody reads may be in whatever letters they like.
void TextReader::require_utf8(const TextRow& row) const {
  if (options_.any_bytes) return;
  const auto require = [](std::string_view label) {
    if (auto problem = utf8_problem(label))
      throw Malformed{std::move(*problem),
                      "convert the text first, for example with iconv -f latin1 -t utf-8"};
  };
  require(row.example);
  for (const std::string_view feature : row.features) require(feature);
  for (const std::string_view label : row.labels) require(label);
}

bool TextReader::next(TextRow& row) {
  while (line_waits_ || next_line()) {
    line_waits_ = false;
    row.features.clear();
    row.numbers.clear();
    row.values.clear();
    row.labels.clear();
    row.times.clear();
    try {
      parser_->parse(line_, row);
      require_utf8(row);
      return true;
    } catch (const Malformed& wrong) {
      const std::string message = fmt::format("{}: {}", place(), wrong.problem);
      if (malformed_++ == 0) first_malformed_ = message;
      if (malformed_ > options_.skip_malformed) {
        throw DataError(
            fmt::format("{}; {}{}", message, wrong.step,
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
