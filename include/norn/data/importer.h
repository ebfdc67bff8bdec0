// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/log.h"
#include "norn/data/text_reader.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// Makes files of data sets from text. Memory holds the labels and a few bytes an example; entries
/// pass through temporary files beside the output.
namespace norn {

/// A feature that an example names twice.
enum class Duplicates {
  error,
  sum,   ///< values are added; without values it counts once
  first  ///< the first one counts
};

/// An example without features (or none that a given feature index knows).
enum class EmptyRows { error, drop, keep };

/// An example on a second line of DSSTNE text. In CSV and TSV an example's lines always belong
/// together.
enum class RepeatedExamples { error, last, merge };

/// An example that only one of two texts has.
enum class MissingExamples {
  error,
  empty,  ///< its row is empty in the other set
  drop
};

/// What labels of LibSVM text are.
enum class LibsvmLabels {
  automatic,  ///< numbers when the text has a header line, else names
  numbers,    ///< columns from 0
  names       ///< words, numbered in order of appearance
};

enum class ValueKind {
  automatic,  ///< analog for LibSVM, else indicator
  indicator,  ///< present or absent
  analog      ///< a value each
};

/// What becomes of an index of features that a file may hold already.
enum class FeatureMode {
  automatic,  ///< as existing when the file is there, else as fresh
  existing,   ///< the file must be there; features that it lacks are dropped
  fresh,      ///< a new index is made
  merge       ///< new features are added
};

/// Which entries or examples go to which file.
struct SplitRule {
  enum class Kind {
    none,
    ratio,
    leave_one_out,   ///< one entry of each example at random
    time,            ///< by the times of the entries
    leave_last_out,  ///< the newest entry of each example
    new_items,       ///< entries of a share of the features, which training does not have
  };
  enum class Unit {
    entry,    ///< each example's entries are shared out; inputs are always the training entries
    example,  ///< whole examples are shared out
    pair      ///< as entry, but each by its example's label and its feature's number alone: it
              ///< stays in its part when the text grows
  };
  Kind kind = Kind::none;
  Unit unit = Unit::entry;
  /// Train, test or train, validation, test, of any sum; of `new_items` the share that is held out.
  std::vector<double> ratios;
  std::uint64_t seed = 1;
  /// Of `time`, ascending, as parse_time() gives them: before the first is training, from the last
  /// on test, between two validation.
  std::vector<Microseconds> borders = {};
};

struct ImportProgress {
  const char* stage = "";
  Index bytes_done = 0;  ///< of the texts as stored; 0 of 0 in stages without text
  Index bytes_total = 0;
  Index entries = 0;
};

/// What both ways to import share.
struct ImportRules {
  TextOptions text;  ///< its `values` is set by the kinds of the sets
  Duplicates duplicates = Duplicates::error;
  EmptyRows empty_rows = EmptyRows::error;
  RepeatedExamples repeated = RepeatedExamples::error;
  MissingExamples missing = MissingExamples::error;
  bool keep_labels = true;        ///< of features, in the files; else their checksum alone
  std::filesystem::path scratch;  ///< folder for temporary files; empty: the output's
  std::function<void(const ImportProgress&)> progress;
};

/// An input and a target set in one file, joined by example label.
struct PairImport {
  ImportRules rules;
  std::filesystem::path input;
  std::filesystem::path target;  ///< empty: the input is its own target (LibSVM: the labels)
  std::filesystem::path output;  ///< with a split: stem of output.train.nc and so on
  std::string name;              ///< the sets are <name>_input and <name>_output
  ValueKind input_kind = ValueKind::automatic;
  ValueKind target_kind = ValueKind::indicator;
  LibsvmLabels libsvm_labels = LibsvmLabels::automatic;
  std::filesystem::path features;  ///< empty: a fresh one, `output` with the ending .features
  std::filesystem::path target_features;  ///< of targets with features of their own
  FeatureMode feature_mode = FeatureMode::automatic;
  bool separate_targets = false;  ///< targets have features of their own
  SplitRule split;
};

/// One set in a file, with index files that are shared between runs: what generateNetCDF does.
struct SetImport {
  ImportRules rules;
  std::filesystem::path input;
  std::filesystem::path output;
  std::filesystem::path features;
  std::filesystem::path examples;  ///< index of examples: read when it exists, extended
  FeatureMode feature_mode = FeatureMode::existing;
  std::string name;
  ValueKind kind = ValueKind::indicator;
};

struct ImportReport {
  struct File {
    std::filesystem::path path;
    Index examples = 0;
    Index input_entries = 0;
    Index target_entries = 0;
  };
  std::vector<File> files;
  std::vector<std::filesystem::path> index_files;
  Index input_width = 0;
  std::array<Index, 3> input_extent = {};  ///< of images: width, height, channels
  Index target_width = 0;
  Index input_rows = 0;         ///< examples in the input text
  Index target_rows = 0;        ///< and in the target text
  Index joined = 0;             ///< examples kept
  Index only_input = 0;         ///< examples that the target lacks
  Index only_target = 0;        ///< examples that the input lacks
  Index empty_rows = 0;         ///< examples without features, dropped or kept
  Index unlabelled_rows = 0;    ///< the same without labels (LibSVM)
  Index unknown_features = 0;   ///< entries dropped because the given index lacks their feature
  Index duplicates = 0;         ///< entries merged into an earlier one
  Index repeated_examples = 0;  ///< lines merged with or replaced by another
  Index malformed = 0;          ///< lines, or images, passed over
  Index only_later = 0;         ///< examples left out: a split by time has none of them in training
  Index only_new = 0;           ///< examples left out: they have none of the items of training
  Index before_newest = 0;  ///< of leave-last-out: held out, and older than the newest of training
};

/// Existing files stay as they were unless everything was written. Throws DataError and UsageError.
ImportReport import_pair(const PairImport& options, const Log& log);
ImportReport import_set(const SetImport& options, const Log& log);

}  // namespace norn
