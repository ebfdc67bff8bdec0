// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/text_reader.h"
#include "spool.h"

#include <filesystem>
#include <span>
#include <vector>

/// Rows on their way through the importer, in a temporary file that no crash leaves behind.
namespace norn {

struct SpilledRow {
  Column example = 0;
  std::span<const Column> features;
  std::span<const float> values;        // empty when the spill has none
  std::span<const Microseconds> times;  // the same
};

/// Written once from front to back, then read any number of times.
class RowSpill {
 public:
  RowSpill(const std::filesystem::path& folder, bool valued, bool timed = false);

  bool valued() const { return valued_; }
  bool timed() const { return timed_; }
  const std::filesystem::path& folder() const { return file_.folder(); }
  void append(Column example, std::span<const Column> features, std::span<const float> values,
              std::span<const Microseconds> times = {});
  /// Ends the writing and goes to the first row.
  void rewind();
  /// False after the last row. The views are valid until the next call.
  bool next(SpilledRow& row);

 private:
  bool valued_;
  bool timed_;
  Spool file_;  // a row: example, count, features, values, times
  Index rows_ = 0;
  Index read_ = 0;  // rows
  std::vector<Column> features_;
  std::vector<float> values_;
  std::vector<Microseconds> times_;
};

}  // namespace norn
