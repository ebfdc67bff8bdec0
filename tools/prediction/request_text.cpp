// SPDX-License-Identifier: Apache-2.0
// Lines of text, brought together by example.
#include "tools/prediction/request_text.h"

#include <algorithm>

namespace norn::tools {

RequestText::RequestText(const std::filesystem::path& file, const TextOptions& options,
                         const LabelIndex* known)
    : reader_(file, options),
      known_(known),
      valued_(options.values != TextValues::ignore),
      held_(reader_.format()->entry_a_line) {}

bool RequestText::next(TextRow& row) {
  if (!held_) return reader_.next(row);
  if (examples_.empty()) hold();
  if (next_entry_ == entries_.size()) return false;
  row = {};
  const Column example = entries_[next_entry_].example;
  row.example = examples_.label(example);
  for (; next_entry_ < entries_.size() && entries_[next_entry_].example == example; ++next_entry_) {
    const Entry& entry = entries_[next_entry_];
    row.features.push_back(features_.label(entry.feature));
    if (valued_) row.values.push_back(entry.value);
  }
  return true;
}

void RequestText::hold() {
  TextRow row;
  FirstLineCheck check(reader_.first_line());
  while (reader_.next(row)) {
    check.see(row.example, row.features[0]);
    const auto example = Column(examples_.add(row.example));
    for (std::size_t i = 0; i < row.features.size(); ++i)
      entries_.push_back({example, Column(features_.add(row.features[i])),
                          i < row.values.size() ? row.values[i] : 1.0f});
  }
  pass_over_names(check);
  const auto by_example = [](const Entry& a, const Entry& b) { return a.example < b.example; };
  if (!std::is_sorted(entries_.begin(), entries_.end(), by_example))
    std::stable_sort(entries_.begin(), entries_.end(), by_example);
}

void RequestText::pass_over_names(const FirstLineCheck& check) {
  const FirstLine* line = reader_.first_line();
  if (entries_.size() < 2 || !known_ || !line || line->is_names) return;
  if (known_->find(line->feature) || !check.doubt(examples_, features_)) return;
  entries_.erase(entries_.begin());
  passed_over_ = line->example + ", " + line->feature;
}

}  // namespace norn::tools
