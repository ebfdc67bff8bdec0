// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/data/label_index.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The labels that data sets and models keep of their units, and how units are matched by them.
namespace norn {

/// Labels in the order of their numbers, as text.
class LabelList {
 public:
  /// `lines`: each label and a line feed.
  explicit LabelList(std::string lines);
  Index size() const { return Index(begin_.size()) - 1; }
  std::string_view operator[](Index number) const {
    const std::size_t from = begin_[std::size_t(number)];
    return {lines_.data() + from, begin_[std::size_t(number) + 1] - from - 1};
  }
  /// Labels from `first` on.
  std::vector<std::string_view> views(Index first, Index count) const;

 private:
  std::string lines_;
  std::vector<std::size_t> begin_;  // of each label, and the end
};

/// The labels of a data set's features or a layer's units: a small value that is copied freely.
/// Files hold it as it is: the labels' lines, compressed by zlib, and the SHA-256 of these lines;
/// of units whose labels are their numbers only that they are.
class LabelTable {
 public:
  /// What a file holds.
  struct Stored {
    Index count = 0;
    std::int64_t line_bytes = 0;  ///< of the lines, before compression
    std::string sha256;           ///< of the lines, in hexadecimal digits; empty: numbers
    std::vector<char> packed;     ///< the lines; empty for numbers, and where they are kept secret
  };

  LabelTable() = default;  ///< nothing is known
  /// Units named 0 to count - 1.
  static LabelTable numbers(Index count);
  /// Throws DataError for a label with a line feed or a byte of zero.
  static LabelTable of(const LabelIndex& labels);
  /// `where` names the file in messages.
  LabelTable(Stored stored, std::string where);

  bool known() const { return state_ != nullptr; }
  /// Whether the labels themselves are there, or but their checksum.
  bool has_words() const { return are_numbers() || (known() && !state_->stored.packed.empty()); }
  bool are_numbers() const { return known() && state_->stored.sha256.empty(); }
  Index size() const { return known() ? state_->stored.count : 0; }
  /// What a file is to hold. Only of a table that is known.
  const Stored& stored() const { return state_->stored; }
  /// Both are known and have the same labels in the same order. Compares checksums alone.
  bool same_as(const LabelTable& other) const;
  /// The same, but for the labels themselves.
  LabelTable checksum_only() const;

  /// The labels, numbers as words. Only where they are there. Throws DataError when the file's are
  /// damaged.
  LabelList list() const;
  LabelIndex index() const;

 private:
  struct State {
    Stored stored;
    std::string where;
  };
  std::shared_ptr<const State> state_;
};

/// The number that a label is in a table of numbers.
std::optional<Column> number_named(std::string_view label);

/// Which unit of a model each feature of a data set is. Takes memory for labels that are there,
/// not for numbers that could be.
struct UnitMatch {
  LabelTable units;        ///< those of the model
  std::vector<Column> to;  ///< by feature, of the first ones; LabelIndex::kUnknown: none
  Index same_below = 0;    ///< further features below this are the units of the same numbers
  /// Further ones still, ascending, and their units.
  std::vector<std::pair<Column, Column>> others;
  Index unknown = 0;  ///< features that the model does not have

  /// LabelIndex::kUnknown: the model has no such unit.
  Column unit_of(Column feature) const {
    if (feature < to.size()) return to[feature];
    if (Index(feature) < same_below) return feature;
    if (others.empty()) return LabelIndex::kUnknown;
    const auto at =
        std::ranges::lower_bound(others, feature, {}, &std::pair<Column, Column>::first);
    return at != others.end() && at->first == feature ? at->second : LabelIndex::kUnknown;
  }
};

/// Matches by label. Both tables must have their words.
UnitMatch match_units(const LabelTable& features, const LabelTable& units);

}  // namespace norn
