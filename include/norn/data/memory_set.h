// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "norn/data/label_table.h"

#include <memory>
#include <span>
#include <string>

/// Data sets in the memory of a program.
namespace norn {

class Dataset;
struct DatasetInfo;
enum class Role;

/// A data set in arrays that the program keeps: they are read where they stand, and never copied
/// whole but for the offsets and weights of examples. `owner` keeps them alive for as long as a
/// data set reads them; without one the program does. What is written into them meanwhile is
/// trained on from then on, or refused with a DataError where it is no data.
struct MemorySet {
  std::string name = {};  ///< bound to a layer's "DataSet"
  Index width = 0;        ///< units
  /// A sparse set: example e has the columns [row_begin[e], row_begin[e + 1]), in ascending order.
  /// examples + 1 offsets, from 0 to columns.size().
  std::span<const RowOffset> row_begin = {};
  std::span<const Column> columns = {};
  std::span<const float> values = {};  ///< one a column; empty: every column counts as 1
  /// A dense set instead: [examples x width].
  std::span<const float> dense = {};
  std::span<const float> weights = {};  ///< one an example; empty: 1 each
  LabelTable unit_labels = {};          ///< of the units, where they have names
  bool ignore_absent = false;           ///< only what is listed is learned: sparse_ignore_zero
  bool own_units = false;  ///< its units are no other set's, though that may be as wide
  std::shared_ptr<const void> owner = {};
};

/// What the set is. Throws DataError naming the set, the array and its value where arrays do not
/// fit each other.
DatasetInfo describe(const MemorySet& set);

/// Opens it; with a match it enters a model with units of another order, and what it has then is
/// made anew. Throws DataError naming example and value for columns that are out of range or not in
/// order, for a target's columns that occur twice, and for values that are not finite.
std::unique_ptr<Dataset> open_memory_set(const MemorySet& set, Role role,
                                         const std::shared_ptr<const UnitMatch>& match = nullptr);

}  // namespace norn
