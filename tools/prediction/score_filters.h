// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"
#include "src/engine/predict/predictor.h"
#include "tools/common/console.h"
#include "tools/prediction/request_source.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// Which units the predictor leaves out, scales or allows.
namespace norn::tools {

enum class FilterMode { exclude, scale };

/// A filter file in memory: for each example its units and their factors.
class FilterTable {
 public:
  /// Lines `example<TAB>feature[,value]:...`, or of another format; all lines of an example count,
  /// and of several factors of a feature the last. Features that `units` does not hold are dropped
  /// and counted. With FilterMode::scale a feature without a value has the factor 0.
  /// `text`: its format, header line and malformed lines.
  FilterTable(const std::filesystem::path& file, const LabelIndex& units, FilterMode mode,
              TextOptions text = {}, TextNumbers numbers = TextNumbers::units);
  /// Appends the example's entries of the first `units` to the open row of `rows`, those of the
  /// last line first; none when the file has no line for it.
  void append(const std::string& example, Index units, SparseRows& rows) const;
  void report(Console& console) const;

 private:
  LabelIndex examples_;
  static constexpr Index kNoRow = -1;
  SparseRows rows_;                // a line each
  std::vector<Index> last_row_;    // by example
  std::vector<Index> row_before_;  // by row: the same example's on an earlier line
  Index features_ = 0;
  Index unknown_ = 0;
  Index malformed_ = 0;
  std::string first_malformed_;
};

/// All filters of a run, put together for each batch.
class ScoreFilters {
 public:
  /// `units`: candidates of the output layer.
  ScoreFilters(FilterMode mode, Index units)
      : mode_(mode), units_(units), excluded_(false), factors_(true) {}
  void set_table(std::unique_ptr<FilterTable> table) { table_ = std::move(table); }
  /// Only the features that `file` lists, a label a line, may be recommended. Throws DataError when
  /// none of them is known.
  void allow(const std::filesystem::path& file, const LabelIndex& units, Console& console);
  /// The filter of a batch; valid until the next call.
  ScoreFilter of(const RequestBatch& batch);
  void report(Console& console) const {
    if (table_) table_->report(console);
  }

 private:
  FilterMode mode_;
  Index units_;
  std::unique_ptr<FilterTable> table_;
  std::vector<std::uint8_t> allowed_;
  SparseRows excluded_;
  SparseRows factors_;
};

}  // namespace norn::tools
