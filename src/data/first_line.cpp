// SPDX-License-Identifier: Apache-2.0
// Finds names of columns that were taken for data, and data that were taken for names.
#include "first_line.h"

#include "norn/data/label_index.h"
#include "src/base/text.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace norn {

namespace {

bool is_number(const std::string& text) {
  return parse_double(text).has_value();
}

// "user_id", "Movies", "item name".
bool is_usual_name(const std::string& text) {
  constexpr std::array<std::string_view, 11> kThings = {"user",    "customer", "session", "basket",
                                                        "example", "item",     "movie",   "film",
                                                        "product", "article",  "feature"};
  constexpr std::array<std::string_view, 4> kParts = {"", "id", "name", "title"};
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return false;
  const std::string name = lower_case(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
  for (const std::string_view thing : kThings) {
    if (!name.starts_with(thing)) continue;
    std::string_view rest = std::string_view(name).substr(thing.size());
    if (rest.starts_with('s')) rest.remove_prefix(1);
    if (rest.starts_with(' ') || rest.starts_with('_')) rest.remove_prefix(1);
    if (std::ranges::find(kParts, rest) != kParts.end()) return true;
  }
  return false;
}

using Line = std::pair<std::string, std::string>;

// What stands before the digits that a text ends with; of a number nothing. Nothing at all: it does
// not end with digits.
std::optional<std::string_view> before_digits(std::string_view text) {
  const std::size_t end = text.find_last_not_of("0123456789") + 1;
  return end < text.size() ? std::optional(text.substr(0, end)) : std::nullopt;
}

enum class FirstOf {
  no_form,   // the others have none that they share
  the_form,  // it is like the others
  no_other   // it is not
};

// A column's first value beside the others, which may all be a prefix and digits.
FirstOf first_of(std::span<const Line> lines, std::string Line::*column) {
  const std::optional<std::string_view> form = before_digits(lines[1].*column);
  const auto has_form = [&](const Line& line) { return before_digits(line.*column) == form; };
  if (!form || !std::ranges::all_of(lines.subspan(1), has_form)) return FirstOf::no_form;
  return has_form(lines[0]) ? FirstOf::the_form : FirstOf::no_other;
}

// Words above columns of which all others have one form.
bool stands_above_a_form(std::span<const Line> lines) {
  constexpr std::size_t kFewest = 4;  // the first among them
  if (lines.size() < kFewest) return false;
  const FirstOf example = first_of(lines, &Line::first);
  const FirstOf feature = first_of(lines, &Line::second);
  return example != FirstOf::the_form && feature != FirstOf::the_form &&
         (example == FirstOf::no_other || feature == FirstOf::no_other);
}

bool may_name_columns(std::span<const Line> lines, bool is_in_others) {
  if (lines.empty()) return false;
  const auto& [example, feature] = lines.front();
  if (is_usual_name(example) && is_usual_name(feature)) return true;
  if (lines.size() == 1 || is_number(example) || is_number(feature)) return false;
  if (!is_in_others && stands_above_a_form(lines)) return true;
  return std::ranges::all_of(lines.subspan(1), [](const auto& line) {
    return is_number(line.first) || is_number(line.second);
  });
}

}  // namespace

std::optional<std::string> first_line_doubt(
    const FirstLine& line, std::span<const std::pair<std::string, std::string>> lines,
    bool is_example, bool is_feature) {
  if (!line.is_names && may_name_columns(lines, is_example || is_feature))
    return fmt::format(
        "the first line is taken as data: {}, {}; say with `header` yes that it names the columns, "
        "or no, that it does not",
        line.example, line.feature);
  if (line.is_names && (is_example || is_feature))
    return fmt::format(
        "the first line is taken for the names of columns: {}, {}, but \"{}\" is {} of other "
        "lines, too; say with `header` no that it is data, or yes, that it is not",
        line.example, line.feature, is_example ? line.example : line.feature,
        is_example ? "an example" : "a feature");
  return std::nullopt;
}

std::optional<std::string> FirstLineCheck::doubt(const LabelIndex& examples,
                                                 const LabelIndex& features) const {
  if (!line_) return std::nullopt;
  if (!line_->is_names) return first_line_doubt(*line_, seen_, is_example_, is_feature_);
  return first_line_doubt(*line_, seen_, examples.find(line_->example).has_value(),
                          features.find(line_->feature).has_value());
}

}  // namespace norn
