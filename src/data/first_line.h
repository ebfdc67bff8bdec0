// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The first line of text in columns, where nobody has said whether it names them.
namespace norn {

class LabelIndex;

/// What it has for the example and the feature, and what it was taken for.
struct FirstLine {
  bool is_names = false;
  std::string example, feature;
};

/// Lines that are looked at.
constexpr std::size_t kFirstLines = 20;

/// What to say of it; nothing: it is what it was taken for. `lines`: the example and the feature of
/// the first rows, itself among them where it is data. `is_example`, `is_feature`: whether other
/// lines have the same. Data look as if they were names where they have the usual ones, or no
/// number where each other line has one, or where no other line has either and all others of a
/// column are a prefix and digits, `u12`, which the first is not.
std::optional<std::string> first_line_doubt(
    const FirstLine& line, std::span<const std::pair<std::string, std::string>> lines,
    bool is_example, bool is_feature);

/// Gathers what tells whether the guess was right.
class FirstLineCheck {
 public:
  explicit FirstLineCheck(const FirstLine* line) : line_(line) {}
  /// A row of the text, from the first on.
  void see(std::string_view example, std::string_view feature) {
    if (!line_ || line_->is_names) return;
    is_example_ = is_example_ || (!seen_.empty() && example == line_->example);
    is_feature_ = is_feature_ || (!seen_.empty() && feature == line_->feature);
    if (seen_.size() < kFirstLines) seen_.emplace_back(example, feature);
  }
  /// What to say of it with the labels of the whole text.
  std::optional<std::string> doubt(const LabelIndex& examples, const LabelIndex& features) const;

 private:
  const FirstLine* line_;
  std::vector<std::pair<std::string, std::string>> seen_;
  bool is_example_ = false, is_feature_ = false;  // of a line behind the first, where that is data
};

}  // namespace norn
