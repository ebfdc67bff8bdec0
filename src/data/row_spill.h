// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdint>
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

/// Written once from front to back, then read any number of times. The file has no name from the
/// moment it is open.
class RowSpill {
 public:
  RowSpill(std::filesystem::path folder, bool valued);
  ~RowSpill();
  RowSpill(RowSpill&& other) noexcept;
  RowSpill& operator=(RowSpill&& other) noexcept;
  RowSpill(const RowSpill&) = delete;
  RowSpill& operator=(const RowSpill&) = delete;

  bool valued() const { return valued_; }
  const std::filesystem::path& folder() const { return folder_; }
  void append(Column example, std::span<const Column> features, std::span<const float> values);
  /// Ends the writing and goes to the first row.
  void rewind();
  /// False after the last row. The views are valid until the next call.
  bool next(SpilledRow& row);

 private:
  void flush();
  bool ensure(std::size_t words);
  std::filesystem::path folder_;
  bool valued_ = false;
  int descriptor_ = -1;
  std::int64_t read_position_ = 0;     // bytes
  std::vector<std::uint32_t> buffer_;  // a row: example, count, features, values
  std::size_t at_ = 0;                 // words of the buffer that were read
  std::vector<float> values_;
};

}  // namespace norn
