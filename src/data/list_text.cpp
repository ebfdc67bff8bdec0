// SPDX-License-Identifier: Apache-2.0
// Lists, as LightGCN's data sets have them: user item item ...

#include "row_parser.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn {

namespace {

class ListParser final : public RowParser {
 public:
  explicit ListParser(const TextOptions& options)
      : values_(options.values), missing_value_(options.missing_value) {}

  void parse(std::string_view line, TextRow& row) override {
    row.example = next_word(line);
    check_label(row.example, "example");
    for (std::string_view item = next_word(line); !item.empty(); item = next_word(line)) {
      if (values_ == TextValues::require) {
        throw Malformed{
            fmt::format("the feature {} has no value, as lists never have", excerpt(item))};
      }
      if (item.find(':') != std::string_view::npos) {
        throw Malformed{fmt::format(
            "the feature {} has a colon, as lists never have; libsvm text does", excerpt(item))};
      }
      if (item.find(',') != std::string_view::npos) {
        throw Malformed{fmt::format("the feature {} has a comma, as lists never have; csv does",
                                    excerpt(item))};
      }
      check_label(item, "feature");
      row.features.push_back(item);
      if (values_ == TextValues::optional) row.values.push_back(missing_value_);
    }
  }

 private:
  TextValues values_;
  float missing_value_;
};

/// Items of a list are mostly numbers or have one in them; prose has none.
bool is_item(std::string_view word) {
  return word.find_first_of(":,#\"") == std::string_view::npos &&
         std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool looks_like_list(std::string_view line) {
  if (line.empty() || kBlanks.find(line.front()) != std::string_view::npos) return false;
  const std::string_view user = next_word(line);
  if (user.find_first_of(":,#\"") != std::string_view::npos) return false;
  for (std::string_view item = next_word(line); !item.empty(); item = next_word(line))
    if (!is_item(item)) return false;
  return true;
}

}  // namespace

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

extern constinit const TextFormatInfo kListText = {
    .name = "list",
    .title = "list",
    .help = "example feature feature ..., as LightGCN's data sets",
    .recognises = is_list,
    .make_parser = make_parser<ListParser>};

}  // namespace norn
