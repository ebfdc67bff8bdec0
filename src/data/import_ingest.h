// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/importer.h"
#include "norn/data/label_table.h"
#include "row_table.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

/// From text to rows of numbers.
namespace norn {

/// The columns of a data set: labels with numbers, or numbers that stand for themselves (LibSVM).
class FeatureIndex {
 public:
  enum class Growth { grows, fixed };
  FeatureIndex() = default;

  /// The index that a file holds, or is to hold.
  static FeatureIndex open(const std::filesystem::path& path, FeatureMode mode);
  /// Whether it says more than the file that it was opened from.
  bool changed() const { return !fixed() && (fresh_ || width() > given_); }
  /// From now on numbers stand for themselves, up to `width` at least. A fixed index keeps its
  /// width.
  void use_numbers(Index width);
  bool numeric() const { return numeric_; }
  bool fixed() const { return growth_ == Growth::fixed; }

  /// Nothing when the index is fixed and lacks the feature.
  std::optional<Column> number(Column number);
  /// The numbers of labels, appended; LabelIndex::kUnknown for those that a fixed index lacks.
  void number_all(std::span<const std::string_view> labels, std::vector<Column>& numbers);
  /// Gives the labels that the given index lacks the order of their bytes; new numbers by old ones.
  std::vector<Column> sort_new();
  /// The same labels with other numbers, by old ones.
  void renumber(std::span<const Column> numbers);
  /// Of the first features alone.
  LabelTable first(Index count, const ImportRules& rules) const;
  std::string name(Column number) const;
  Index width() const { return numeric_ ? width_ : labels_.size(); }
  const LabelIndex& labels() const { return labels_; }
  /// What a file of data sets keeps of it.
  LabelTable table(const ImportRules& rules) const;

 private:
  Growth growth_ = Growth::grows;
  bool fresh_ = true;
  Index given_ = 0;
  bool numeric_ = false;
  Index width_ = 0;
  LabelIndex labels_;
};

/// Counts of what was met on the way.
struct IngestCounts {
  Index empty = 0;
  Index unlabelled = 0;
  Index unknown = 0;
  Index repeated = 0;
  Index malformed = 0;
};

/// Lines of one entry each that are numbered together.
struct EntryLines {
  std::string bytes;  // the labels, one after the other
  std::vector<std::size_t> example_end;
  std::vector<std::size_t> feature_end;  // and the next example begins
  std::vector<float> values;
  std::vector<Microseconds> times;
  std::vector<std::string_view> examples, features;  // views into `bytes`
  std::vector<Column> example_numbers, columns;

  void add(const TextRow& row);
  void make_views();
  void clear();
};

/// Fills row tables from texts. `examples` grows with every example met.
class TextIngest {
 public:
  TextIngest(const ImportRules& rules, LabelIndex& examples, const Log& log)
      : rules_(rules), examples_(examples), log_(log), cleaner_(rules.duplicates) {}

  /// Reads a whole text into `rows`; LibSVM's labels into `labels` unless that is null.
  void read(TextReader& text, FeatureIndex& features, RowTable& rows,
            FeatureIndex* label_features = nullptr, RowTable* labels = nullptr);
  const IngestCounts& counts() const { return counts_; }
  Index duplicates() const { return cleaner_.merged(); }

 private:
  enum class RowKind { features, labels };
  void drop_unknown(const TextRow& row, std::size_t first);
  void number_features(const TextRow& row, FeatureIndex& features);
  void number_labels(const TextRow& row, FeatureIndex& features);
  /// Adds the row that was numbered, or does with it what the rules say. False: it was dropped.
  bool add_row(const FeatureIndex& features, RowTable& rows, RowKind kind);
  void add_lines(FeatureIndex& features, RowTable& rows);
  void note_examples();
  void end_bare_examples(RowTable& rows);
  void close_piece(const FeatureIndex& features, RowTable& rows);
  [[noreturn]] void fail_duplicate(const FeatureIndex& features, std::size_t entry,
                                   const std::string& place) const;
  void compare_with_header(const TextReader& text, Index examples) const;
  void show_progress(const char* stage, Index entries);

  const ImportRules& rules_;
  LabelIndex& examples_;
  const Log& log_;
  RowCleaner cleaner_;
  IngestCounts counts_;
  const TextReader* text_ = nullptr;  // being read

  // The row being made. CSV and TSV give an example in pieces: lines that follow each other.
  std::string_view label_;
  Column example_ = 0;
  std::vector<Column> columns_;
  std::vector<float> values_;
  std::vector<Microseconds> times_;
  bool piece_open_ = false;
  EntryLines lines_;
  // Of such text and a given index: examples, and with EmptyRows::keep by number, that may have no
  // feature which it knows.
  LabelIndex left_out_;
  std::vector<bool> named_;
};

}  // namespace norn
