// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/memory_set.h"
#include "norn/run/import.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Data sets on their way between texts, files and a program's own arrays.
namespace norn::run {

/// The entries of a text in their order. Labels are numbered as they appear.
struct TextEntries {
  std::vector<std::uint32_t> examples;  ///< by entry
  std::vector<std::uint32_t> features;
  std::vector<float> values;        ///< empty: none were asked for
  std::vector<Microseconds> times;  ///< the same
  LabelIndex example_labels;
  LabelIndex feature_labels;
  Index malformed = 0;  ///< lines passed over
  /// Where nobody said whether text in columns begins with their names, and the guess may be wrong.
  std::optional<std::string> first_line_doubt;
  /// Where nobody said which column has the times, and those of the fourth seem to be none.
  std::optional<std::string> time_doubt;
};

/// Reads what import_files() would: of `options` count `input`, `format`, the columns, `header`,
/// `type`, `skip_malformed`, `empty_rows` where it is drop, and `split` where it is by time: then
/// lines have times. Duplicates are left as they stand. Throws UsageError for text whose features
/// are numbers (LibSVM), and DataError for examples without features, or on two lines of a format
/// that has them on one.
TextEntries read_entries(const ImportOptions& options);

/// The format of `input`, found out where it is to be: "csv", "libsvm".
std::string text_format(const ImportOptions& options);

/// Where entries, or whole examples, go.
struct SharedOut {
  std::vector<std::string> parts;  ///< "train", "validation", "test"
  bool by_entry = true;            ///< else by example
  std::vector<std::uint8_t> part;  ///< numbers of parts
};

/// Shares out the rows of a set as import_files() does the same text: of `options` count `split`,
/// `split_by` and `seed`. Entries stand in the order of the text, and rows in that of their first
/// lines; for a split by time rows in the order of their labels' bytes, and entries in that of
/// their features'. `labels` are those of the examples, for a split by pair; `times` one an entry,
/// for one by time.
SharedOut share_out(const ImportOptions& options, const MemorySet& rows,
                    std::span<const std::string_view> labels,
                    std::span<const Microseconds> times = {});

/// The sets of a file, whole in memory; rows in ascending order of columns. They own their arrays.
struct FileSets {
  std::vector<MemorySet> sets;
  std::vector<std::vector<std::string>> example_labels;  ///< by set; empty where it has none
};
FileSets read_sets(const std::filesystem::path& file);

/// Writes sparse sets of the same examples as import_files() does; columns may stand in any order.
/// `labels`: of the examples, or none. The file is complete or absent. Throws DataError for sets
/// without examples or entries, and for arrays that do not fit each other.
void write_sets(const std::filesystem::path& file, std::span<const MemorySet> sets,
                std::span<const std::string_view> labels);

/// What a model or a file of data sets is, as a JSON object with the member "kind": "model" or
/// "data". Throws DataError for files that are neither, and damaged ones.
std::string describe_file(const std::filesystem::path& file);

}  // namespace norn::run
