// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "spool.h"

#include <filesystem>
#include <span>
#include <vector>

/// Rows on their way through the importer, in a temporary file that no crash leaves behind.
namespace norn {

struct SpilledRow {
  Column example = 0;
  std::span<const Column> features;
  std::span<const float> values;  // empty when the spill has none
};

/// Written once from front to back, then read any number of times.
class RowSpill {
 public:
  RowSpill(const std::filesystem::path& folder, bool valued);

  bool valued() const { return valued_; }
  const std::filesystem::path& folder() const { return file_.folder(); }
  void append(Column example, std::span<const Column> features, std::span<const float> values);
  /// Ends the writing and goes to the first row.
  void rewind();
  /// False after the last row. The views are valid until the next call.
  bool next(SpilledRow& row);

 private:
  bool valued_;
  Spool file_;  // a row: example, count, features, values
  Index rows_ = 0;
  Index read_ = 0;  // rows
  std::vector<Column> features_;
  std::vector<float> values_;
};

}  // namespace norn
