// SPDX-License-Identifier: Apache-2.0
// DSSTNE's text: example<TAB>feature[,value]:feature[,value]:...

#include "row_parser.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {

namespace {

class DsstneParser final : public RowParser {
 public:
  explicit DsstneParser(const TextOptions& options)
      : values_(options.values), missing_value_(options.missing_value) {}

  void parse(std::string_view line, TextRow& row) override {
    const std::size_t tab = line.find('\t');
    if (tab == std::string_view::npos) {
      throw Malformed{fmt::format("{} has no tab between example and features", excerpt(line))};
    }
    row.example = line.substr(0, tab);
    check_label(row.example, "example");
    std::string_view rest = line.substr(tab + 1);
    if (rest.find('\t') != std::string_view::npos) {
      throw Malformed{fmt::format("the features of {} contain a second tab", excerpt(row.example))};
    }
    while (!rest.empty()) {
      const std::size_t colon = rest.find(':');
      const std::string_view entry = rest.substr(0, colon);
      rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
      if (!entry.empty()) add(entry, row);
    }
  }

 private:
  void add(std::string_view entry, TextRow& row) {
    const std::size_t comma = entry.find(',');
    const std::string_view feature = entry.substr(0, comma);
    if (feature.empty())
      throw Malformed{fmt::format("{} has a value but no feature", excerpt(entry))};
    check_length(feature, "feature");
    row.features.push_back(feature);
    if (comma == std::string_view::npos) {
      if (values_ == TextValues::require) {
        throw Malformed{fmt::format("the feature {} has no value", excerpt(feature))};
      }
      if (values_ == TextValues::optional) row.values.push_back(missing_value_);
      return;
    }
    const std::string_view text = entry.substr(comma + 1);
    if (text.find(',') != std::string_view::npos) {
      throw Malformed{fmt::format("the feature {} has more than one value", excerpt(feature))};
    }
    const float value = parse_value(text);
    if (values_ != TextValues::ignore) row.values.push_back(value);
  }

  TextValues values_;
  float missing_value_;
};

}  // namespace

extern constinit const TextFormatInfo kDsstneText = {
    .name = "dsstne",
    .title = "DSSTNE's",
    .help = "example<TAB>feature[,value]:feature[,value]...",
    .recognises = [](std::string_view line,
                     std::string_view) { return std::ranges::count(line, '\t') == 1; },
    .make_parser = make_parser<DsstneParser>};

}  // namespace norn
