// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/types.h"
#include "norn/data/importer.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Shares out entries or examples to training, validation and test. Every decision is a function of
/// (seed, number of the example, number of its entries), of pairs of (seed, label of the example,
/// number of the feature), by time of the times of the example's entries.
namespace norn {

class Split {
 public:
  /// Throws UsageError for ratios that make no sense.
  explicit Split(const SplitRule& rule);

  int parts() const { return int(names_.size()); }
  /// "train", "validation", "test"; one empty name without a split.
  const std::string& name(int part) const { return names_[std::size_t(part)]; }
  bool by_entry() const { return by_entry_; }
  bool by_pair() const { return by_entry_ && rule_.unit == SplitRule::Unit::pair; }
  bool by_time() const;
  bool by_item() const { return rule_.kind == SplitRule::Kind::new_items; }
  /// Whether entries must be looked at: their part follows from more than their count.
  bool by_looking() const { return by_pair() || by_time() || by_item(); }
  bool by_example() const { return parts() > 1 && !by_entry_; }

  /// How many of an example's n entries each part gets. An example with entries keeps at least one
  /// for training.
  std::array<Index, 3> entry_counts(std::uint64_t example, Index n) const;
  /// The part of each of an example's n entries.
  void entry_parts(std::uint64_t example, Index n, std::vector<std::uint8_t>& parts) const;
  /// by_pair(): the part of each entry of an example with that label.
  void pair_parts(std::string_view label, std::span<const Column> features,
                  std::vector<std::uint8_t>& parts) const;
  /// by_time(): the part of each entry of an example. Of several at the newest time the last counts
  /// as the newest.
  void time_parts(std::span<const Microseconds> times, std::vector<std::uint8_t>& parts) const;
  /// by_item(): the part of each of so many features. Throws UsageError where one of the parts
  /// would have none.
  std::vector<std::uint8_t> item_parts(Index width) const;
  /// The part of each of n examples, by position: exact shares.
  std::vector<std::uint8_t> example_parts(Index n) const;

 private:
  void take_ratios();
  SplitRule rule_;
  bool by_entry_ = false;
  std::vector<std::string> names_;
  std::vector<double> upper_;  // upper ends of the parts' shares, the last 1
};

}  // namespace norn
