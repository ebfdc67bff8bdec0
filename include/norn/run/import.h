// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/importer.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Files of data sets from text and images; docs/user/formats.md has the formats.
namespace norn {
class OptionFaults;
}

namespace norn::run {

/// Messages name settings as `split_by` and `new_features`, in backquotes: the members below. Those
/// with words take the words of import_words().
struct ImportOptions {
  // An input and a target set in one file, joined by the examples' labels.
  std::filesystem::path input;     ///< text: a file, or a folder whose files are read in turn
  std::filesystem::path target;    ///< empty: the input is its own target; LibSVM text has labels
  std::filesystem::path output;    ///< NetCDF; with `split` output.train.nc and so on
  std::string name;                ///< the sets are NAME_input and NAME_output
  std::filesystem::path features;  ///< index of features; empty: a new one beside `output`
  std::filesystem::path target_features;  ///< of targets with features of their own
  bool separate_targets = false;          ///< targets have features of their own
  bool new_features = false;              ///< starts new indexes where files exist
  bool merge_features = false;            ///< adds new features to indexes that exist
  /// Not empty: one set, called `name`, whose rows follow this index of examples, which is read
  /// where it exists, and extended: what generateNetCDF does.
  std::filesystem::path samples;
  std::string feature_labels = "keep";  ///< or their checksum alone
  std::filesystem::path scratch;        ///< folder for temporary files; empty: the output's

  /// Of the text; "images": `input` is a folder with a folder of images for each class, a list of
  /// paths and labels, or a file or folder of idx or CIFAR's records. `target` are the labels of
  /// one file of idx images. Of what follows `size`, `split` by ratio (of whole examples), the
  /// columns of a list and `skip_malformed` go with it.
  std::string format = "auto";
  std::string size;  ///< "32x32" or "32x32x3": what images are made; empty: all have one size

  // The text.
  std::string type = "auto";              ///< of the input's features; auto: as the format has them
  std::string target_type = "indicator";  ///< of the target's
  std::string header = "auto";            ///< auto: by the columns, or the first line's value
  std::string example_column = "1";       ///< of CSV and TSV: number or name
  std::string feature_column = "2";
  std::string value_column = "3";
  std::string time_column;  ///< of a split by time; empty: 4, if a header calls it a time
  std::string libsvm_labels = "auto";  ///< columns from 0, or names; auto: by the header line

  // What is not as expected.
  Index skip_malformed = 0;                ///< so many malformed lines are passed over
  std::string duplicates = "error";        ///< a feature that an example names twice
  std::string empty_rows = "error";        ///< an example without features, or labels
  std::string repeated_examples = "auto";  ///< auto: error, with `samples` last
  std::string missing_examples = "auto";   ///< auto: drop, with `samples` error

  /// "ratio:0.8/0.1/0.1", "leave-one-out", "time:2026-01-31", "leave-last-out"; empty: one file
  std::string split;
  std::string split_by = "entry";  ///< entries of each example, whole examples, or pairs
  std::uint64_t seed = 1;          ///< of the split

  std::function<void(const ImportProgress&)> on_progress;  ///< may throw to end it
  Log log;

  /// Throws UsageError for settings that contradict each other or that none can have, all that is
  /// wrong at once.
  void check() const;
  void check(OptionFaults& faults) const;
};

/// The words that a setting of ImportOptions is between: of "duplicates" error, sum, first.
const std::vector<std::string>& import_words(std::string_view setting);

/// Imports text or images, as `format` says. Files that exist stay as they were unless everything
/// was written. Throws DataError and UsageError.
ImportReport import_files(const ImportOptions& options);

}  // namespace norn::run
