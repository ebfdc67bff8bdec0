// SPDX-License-Identifier: Apache-2.0
// Filters of recommendations.
#include "tools/prediction/score_filters.h"

#include "src/base/text.h"
#include "src/run/allowed_units.h"

#include <fmt/format.h>

namespace norn::tools {

FilterTable::FilterTable(const std::filesystem::path& file, const LabelIndex& units,
                         FilterMode mode, TextOptions text, TextNumbers numbers)
    : rows_(mode == FilterMode::scale) {
  text.format_option = "--filter-format";
  text.values = mode == FilterMode::scale ? TextValues::optional : TextValues::ignore;
  text.missing_value = 0.0f;
  TextReader reader(file, text);
  TextRow row;
  while (reader.next(row)) {
    // Of several entries of a row the first stays, here the last of the text.
    for (std::size_t i = row.features.size(); i-- > 0;) {
      ++features_;
      const auto unit = units.find(row.features[i]);
      if (unit)
        rows_.add(Column(*unit), i < row.values.size() ? row.values[i] : 0.0f);
      else
        ++unknown_;
    }
    for (std::size_t i = row.numbers.size(); i-- > 0;) {  // LibSVM text
      ++features_;
      const auto unit = unit_of(row.numbers[i], numbers, units);
      if (unit && *unit < units.size())
        rows_.add(Column(*unit), i < row.values.size() ? row.values[i] : 0.0f);
      else
        ++unknown_;
    }
    rows_.end_row();
    const auto example = std::size_t(examples_.add(row.example));
    if (example == last_row_.size()) last_row_.push_back(kNoRow);
    row_before_.push_back(last_row_[example]);
    last_row_[example] = rows_.rows() - 1;
  }
  malformed_ = reader.malformed();
  first_malformed_ = reader.first_malformed();
}

void FilterTable::append(const std::string& example, Index units, SparseRows& rows) const {
  const auto number = examples_.find(example);
  if (!number) return;
  Index row = last_row_[std::size_t(*number)];
  for (; row != kNoRow; row = row_before_[std::size_t(row)]) {
    const std::span<const Column> columns = rows_.columns(row);
    const std::span<const float> values = rows_.values(row);
    for (std::size_t i = 0; i < columns.size() && Index(columns[i]) < units; ++i)
      rows.add(columns[i], values.empty() ? 1.0f : values[i]);
  }
}

void FilterTable::report(Console& console) const {
  if (unknown_ > 0)
    console.warning(fmt::format(
        "{} of the {} features of the filter are not in the output feature index: left out",
        with_thousands(unknown_), with_thousands(features_)));
  if (malformed_ > 0)
    console.warning(fmt::format("{} malformed lines of the filter were passed over; the first: {}",
                                malformed_, first_malformed_));
}

void ScoreFilters::allow(const std::filesystem::path& file, const LabelIndex& units,
                         Console& console) {
  allowed_ = run::read_allowed_units(file, units, units_, console.log());
}

ScoreFilter ScoreFilters::of(const RequestBatch& batch) {
  const bool scales = table_ && mode_ == FilterMode::scale;
  const bool excludes = batch.seen.rows() > 0 || (table_ && mode_ == FilterMode::exclude);
  excluded_.clear();
  factors_.clear();
  for (Index r = 0; r < batch.examples(); ++r) {
    const std::string& label = batch.labels[std::size_t(r)];
    if (scales) {
      table_->append(label, units_, factors_);
      factors_.end_row();
    }
    if (!excludes) continue;
    if (table_ && mode_ == FilterMode::exclude) table_->append(label, units_, excluded_);
    if (batch.seen.rows() > 0)
      for (Column unit : batch.seen.columns(r))
        if (Index(unit) < units_) excluded_.add(unit);
    excluded_.end_row();
  }
  ScoreFilter filter;
  if (excludes) filter.excluded = excluded_.view(units_);
  if (scales) filter.factors = factors_.view(units_);
  filter.allowed = {allowed_.data(), Index(allowed_.size())};
  return filter;
}

}  // namespace norn::tools
