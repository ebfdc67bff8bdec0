// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

/// Elements of a data set's variable as floats: converted, bytes scaled, in bounded memory.
namespace norn {

class NetcdfFile;

/// What a stored 0 becomes.
float value_of_zero(const DatasetInfo& info, Role role);

class StoredValues {
 public:
  /// Dense input bytes are centred: an unsigned x becomes x / 256 - 0.5; everywhere else it is
  /// x / 256, a signed one x / 128, a 16-bit colour x / 65536 (centred likewise).
  StoredValues(const NetcdfFile& file, const DatasetInfo& info, std::string variable, Role role);
  /// Elements [first, first + values.size()). Values that a float cannot hold become infinite.
  void read(Index first, std::span<float> values);

 private:
  void read_bytes(Index first, std::span<float> values);
  void read_numbers(Index first, std::span<float> values);

  const NetcdfFile& file_;
  std::string variable_;
  ElementType type_;
  bool bytes_ = false;   // stored as one byte an element
  bool floats_ = false;  // stored as float32
  float scale_ = 1;
  float shift_ = 0;
  std::vector<char> raw_;
  std::vector<double> wide_;
};

/// The first element that is NaN or infinite.
std::optional<Index> first_not_finite(std::span<const float> values);

/// Elements [first, first + columns.size()) of a variable of column or class numbers, each checked
/// to be below `width`; the position of the first that is not is thrown as an OutOfRange.
struct OutOfRange {
  Index position;
  double value;
};
void read_columns(const NetcdfFile& file, const std::string& variable, Index width, Index first,
                  std::span<Column> columns);

}  // namespace norn
