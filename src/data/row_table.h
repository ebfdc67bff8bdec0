// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/importer.h"
#include "row_spill.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <unordered_set>
#include <vector>

/// The rows of one text: one an example, in ascending order of the examples' numbers.
namespace norn {

/// Names for messages.
struct RowNames {
  std::function<std::string(Column)> example;
  std::function<std::string(Column)> feature;
};

/// Finds features that a row names twice.
class RowCleaner {
 public:
  explicit RowCleaner(Duplicates rule) : rule_(rule) {}
  /// Merges duplicates in place; values and times may be none. With Duplicates::error the row stays
  /// as it is, and the position of the first entry that repeats another is returned; else the row's
  /// size.
  std::size_t clean(std::vector<Column>& features, std::vector<float>& values,
                    std::vector<Microseconds>& times);
  Index merged() const { return merged_; }

 private:
  bool first_time(Column feature);

  Duplicates rule_;
  std::vector<std::uint32_t> seen_;       // by feature: the last row that named it
  std::unordered_set<Column> seen_high_;  // features of this row beyond the reach of seen_
  std::uint32_t row_ = 0;
  Index stamped_ = 0;  // how far seen_ reaches in this row
  Index entries_ = 0;  // of all rows so far
  Index merged_ = 0;
};

class RowTable {
 public:
  static constexpr std::uint32_t kAbsent = std::numeric_limits<std::uint32_t>::max();

  /// With times the order of the text's lines does not matter: finish() orders each row's entries
  /// by feature, and merges those of one feature in the order of their times.
  RowTable(const std::filesystem::path& folder, bool valued, bool timed = false)
      : spill_(folder, valued, timed) {}

  /// Adds a row, or a part of one when its example has been here before. Rows that come in the
  /// order of their examples' numbers, each at once, are stored in one go; others are put in order
  /// by finish().
  void add(Column example, std::span<const Column> features, std::span<const float> values,
           std::span<const Microseconds> times = {});
  /// Before finish(): gives examples and features other numbers, each at its old one's place.
  void renumber(std::span<const Column> examples, std::span<const Column> features);
  bool has(Column example) const { return count(example) != kAbsent; }
  /// The entries of an example's row, or kAbsent.
  std::uint32_t count(Column example) const {
    return example < counts_.size() ? counts_[example] : kAbsent;
  }
  Index rows() const { return rows_; }
  Index entries() const { return entries_; }
  bool valued() const { return spill_.valued(); }
  bool timed() const { return spill_.timed(); }

  static constexpr Index kBucketEntries = Index(1) << 24;
  /// Puts rows in order, where they are not, and merges their parts (or keeps the last). About
  /// `bucket_entries` entries are ordered in memory at a time.
  void finish(RepeatedExamples repeated, RowCleaner& cleaner, const RowNames& names,
              Index bucket_entries = kBucketEntries);
  /// Reads from the first row; then next() gives one after the other.
  void rewind() { spill_.rewind(); }
  bool next(SpilledRow& row) { return spill_.next(row); }

 private:
  class Regrouping;
  RowSpill spill_;
  std::vector<std::uint32_t> counts_;  // by example; of all parts until finish()
  Index rows_ = 0;
  Index entries_ = 0;
  Column last_ = 0;
  bool in_order_ = true;
};

}  // namespace norn
