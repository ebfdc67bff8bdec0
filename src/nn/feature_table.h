// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace norn {

/// The features of the units of an Output layer: fixed weights [units x features] by which units
/// have a part in what is learnt of features.
struct FeatureTable {
  Index features = 0;
  std::vector<RowOffset> row_begin = {0};  ///< [rows + 1]; units behind the rows have none
  std::vector<Column> column;              ///< < features, ascending within a row
  std::vector<float> value;                ///< empty: every entry counts as 1
  std::vector<std::string> labels;         ///< [features], or empty where they have no names

  Index rows() const { return Index(row_begin.size()) - 1; }
  RowOffset entries() const { return row_begin.back(); }
  /// Entries of the units before `unit`.
  RowOffset before(Index unit) const {
    return row_begin[std::size_t(unit < rows() ? unit : rows())];
  }
  /// Of everything in it.
  std::uint64_t checksum() const;
};

}  // namespace norn
