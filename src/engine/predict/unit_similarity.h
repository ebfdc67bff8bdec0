// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.h"

#include <cstdint>
#include <span>
#include <vector>

/// How similar units are, by the examples that have them.
namespace norn {

/// The cosine of two units, of the vectors that say which examples of a training set have them; 0
/// of a unit that none has.
class UnitSimilarity {
 public:
  /// Reads the set once: 4 bytes an entry. Its first `units` units count, and an entry that is
  /// there twice is one.
  UnitSimilarity(Dataset& training, Index units);
  Index units() const { return Index(begin_.size()) - 1; }

  /// By example, what the units of a list add up to.
  struct Workspace {
    std::vector<double> sums;
  };
  /// For each unit of a list the sum of its cosines with those before it. Takes as long as there
  /// are examples that have the list's units.
  void to_those_before(std::span<const Index> list, Workspace& workspace,
                       std::vector<double>& sums) const;

 private:
  std::span<const std::uint32_t> examples_of(Index unit) const;
  Index examples_ = 0;
  std::vector<Index> begin_;            // by unit
  std::vector<std::uint32_t> example_;  // of each unit, ascending
};

}  // namespace norn
