// SPDX-License-Identifier: Apache-2.0
// LibSVM and extreme-classification text: label,label number:value number:value ...

#include "row_parser.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>

namespace norn {

namespace {

template <typename T>
bool parse_natural(std::string_view text, T& number) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc{} && result.ptr == end && !text.empty() && text[0] != '-';
}

class LibsvmParser final : public RowParser {
 public:
  explicit LibsvmParser(const TextOptions& options)
      : values_(options.values),
        missing_value_(options.missing_value),
        format_option_(options.format_option) {}

  bool take_header(std::string_view line, std::string_view /*second*/) override {
    LibsvmHeader header;
    const bool numbers = parse_natural(next_word(line), header.examples) &&
                         parse_natural(next_word(line), header.features) &&
                         parse_natural(next_word(line), header.labels);
    if (!numbers || !next_word(line).empty()) return false;
    check_announced(header.examples, "examples");
    check_announced(header.features, "features");
    check_announced(header.labels, "labels");
    header_ = header;
    return true;
  }

  void parse(std::string_view line, TextRow& row) override {
    std::string_view rest = line.substr(0, line.find('#'));
    plain_ = rest.find(':') == std::string_view::npos;
    // A line without labels begins with a blank or with its first feature.
    const bool labelled = !rest.empty() && kBlanks.find(rest.front()) == std::string_view::npos;
    std::string_view word = next_word(rest);
    if (labelled && word.find(':') == std::string_view::npos) {
      add_labels(word, row);
      word = next_word(rest);
    }
    for (; !word.empty(); word = next_word(rest)) add_feature(word, row);
    name_ = std::to_string(example_++);
    row.example = name_;
  }

  std::optional<LibsvmHeader> header() const override { return header_; }

 private:
  static void check_announced(Index count, const char* what) {
    constexpr Index kMost = std::numeric_limits<Column>::max();
    if (count > kMost)
      throw Malformed{
          fmt::format("the header announces {} {}, a data set has at most {}", count, what, kMost)};
  }

  void add_labels(std::string_view word, TextRow& row) {
    while (true) {
      const std::size_t comma = word.find(',');
      const std::string_view label = word.substr(0, comma);
      check_label(label, "feature");
      row.labels.push_back(label);
      if (comma == std::string_view::npos) return;
      word = word.substr(comma + 1);
    }
  }

  void add_feature(std::string_view word, TextRow& row) {
    const std::size_t colon = word.find(':');
    const std::string_view number_text = word.substr(0, colon);
    Column number = 0;
    if (!parse_natural(number_text, number) || number == std::numeric_limits<Column>::max()) {
      throw Malformed{
          fmt::format("the feature {} is not a number from 0 to 4294967294", excerpt(number_text))};
    }
    if (header_ && Index(number) >= header_->features) {
      throw Malformed{
          fmt::format("the feature {} is out of range, the header announces {} features, "
                      "from 0",
                      number, header_->features)};
    }
    row.numbers.push_back(number);
    if (colon != std::string_view::npos) {
      const float value = parse_value(word.substr(colon + 1));
      if (values_ != TextValues::ignore) row.values.push_back(value);
    } else if (values_ == TextValues::require) {
      throw Malformed{
          fmt::format("the feature {} has no value{}", number,
                      plain_ ? fmt::format("; lines of an example and its features alone are read "
                                           "with {} list",
                                           format_option_)
                             : std::string())};
    } else if (values_ == TextValues::optional) {
      row.values.push_back(missing_value_);
    }
  }

  TextValues values_;
  float missing_value_;
  std::string format_option_;
  std::optional<LibsvmHeader> header_;
  bool plain_ = false;  // no feature of the line has a value
  Index example_ = 0;
  std::string name_;
};

bool is_libsvm(std::string_view line, std::string_view ahead) {
  if (line.find('\t') != std::string_view::npos || is_list(line, ahead)) return false;
  LibsvmParser parser({});
  try {
    if (parser.take_header(line, {})) return true;
  } catch (const Malformed&) {
    return true;  // a header, whose numbers are checked when it is read
  }
  try {
    TextRow row;
    parser.parse(line, row);
    return !row.numbers.empty();
  } catch (const Malformed&) {
    return false;
  }
}

}  // namespace

extern constinit const TextFormatInfo kLibsvmText = {.name = "libsvm",
                                                     .title = "LibSVM",
                                                     .help = "label,label number:value ...",
                                                     .endings = {".svm", ".libsvm"},
                                                     .numbered = true,
                                                     .valued = true,
                                                     .recognises = is_libsvm,
                                                     .make_parser = make_parser<LibsvmParser>};

}  // namespace norn
