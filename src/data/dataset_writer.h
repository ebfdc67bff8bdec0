// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Writes files of data sets, piece by piece.
namespace norn {

/// Writes one file that is complete or absent. Each set's shape and totals are told beforehand by a
/// DatasetInfo (`file` and `number` are ignored); rows are then appended in order, to any set at
/// any time. Offsets are 64 bits wide and the width is the true one. Values are stored as they are
/// given: the scaling of bytes is the reader's affair.
///
/// `label_bytes` > 0 makes room for the labels of that set's examples; `label_set` names another
/// set of the file whose labels hold for this one too. `unit_labels` are written with the set, or
/// once for several that have the same.
class DatasetWriter {
 public:
  /// Throws DataError when the file cannot be made, ShapeError for sets that contradict themselves.
  DatasetWriter(const std::filesystem::path& path, std::vector<DatasetInfo> sets);
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  /// Appends rows of a sparse set. `row_sizes` counts each row's entries; `values` is empty for
  /// boolean sets.
  void append_rows(int set, std::span<const Index> row_sizes, std::span<const Column> columns,
                   std::span<const float> values = {});
  /// Appends rows of a dense set: [rows x width] values.
  void append_values(int set, std::span<const float> values);
  void append_values(int set, std::span<const std::uint8_t> values);
  /// Appends rows of class labels (a dense boolean set), one class number each.
  void append_classes(int set, std::span<const Column> classes);
  /// Appends stored rows for the examples of an Indexed set.
  void append_index(int set, std::span<const Column> rows);
  /// Appends weights for the examples of a Weighted set.
  void append_weights(int set, std::span<const float> weights);
  /// Appends the labels of examples.
  void append_labels(int set, std::span<const std::string_view> labels);
  /// Checks that everything was appended that was announced, and ends the writing. commit() does so
  /// too; apart, they let several files be finished before the first takes its place.
  void finish();
  /// Puts the file in its place.
  void commit();

 private:
  template <typename T>
  void append_dense(int set, std::span<const T> values);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace norn
