// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "import_ingest.h"
#include "label_index_writer.h"
#include "src/data/dataset_writer.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// The output files of an import: announced, filled row by row, then put in place all at once.
namespace norn {

/// A data set of an output file, with its totals.
struct OutputSet {
  std::string name;
  bool valued = false;
  Index width = 0;
  Index entries = 0;
  bool own_units = false;
  LabelTable labels = {};
  bool ignore_absent = false;
};

/// One file of data sets that share their examples. Without bytes of labels these have none.
class OutputFile {
 public:
  OutputFile(const std::filesystem::path& path, const std::vector<OutputSet>& sets, Index examples,
             Index label_bytes);
  /// Appends an example's row to a set. Values are dropped when the set has none.
  void append_row(int set, std::span<const Column> columns, std::span<const float> values);
  void append_label(std::string_view label);
  /// Writes what is buffered and ends the file; commit() puts it in its place.
  void finish();
  void commit() { writer_.commit(); }

 private:
  struct Rows {
    bool valued = false;
    std::vector<Index> sizes;
    std::vector<Column> columns;
    std::vector<float> values;
  };
  void flush(int set);
  void flush_labels();
  DatasetWriter writer_;
  std::vector<Rows> rows_;  // by set, waiting to be written
  std::vector<std::string> labels_;
};

/// Index files that take their place together with the data.
class IndexFiles {
 public:
  explicit IndexFiles(const ImportRules& rules) : rules_(rules) {}
  /// The features of a data set. Numbers are their own labels; they are written, for texts that
  /// name no width, unless there are more than kMostNumbers of them.
  void add_features(const std::filesystem::path& path, const FeatureIndex& features);
  void add_labels(const std::filesystem::path& path, const LabelIndex& labels);
  /// A file that the caller fills.
  LabelIndexWriter& add(const std::filesystem::path& path);
  void finish();
  void commit();
  std::vector<std::filesystem::path> paths() const;

 private:
  void show_line(Index number) const;
  static constexpr Index kMostNumbers = Index(1) << 24;
  const ImportRules& rules_;
  std::vector<std::unique_ptr<LabelIndexWriter>> files_;
};

/// Tells a stage of the import that has no text to read.
void show_stage(const ImportRules& rules, const char* stage, Index entries);
/// The folder for temporary files.
std::filesystem::path scratch_folder(const ImportRules& rules, const std::filesystem::path& output);
/// data.nc and ".features" make data.features; another name keeps its ending.
std::filesystem::path beside(const std::filesystem::path& output, const std::string& ending);
/// Throws UsageError when two files have the same path, or an output is an input.
void check_paths(const std::vector<std::filesystem::path>& inputs,
                 const std::vector<std::filesystem::path>& outputs);
void fill_counts(ImportReport& report, const TextIngest& ingest);

}  // namespace norn
