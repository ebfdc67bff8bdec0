// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/tensor/block_partition.h"

/// Canonical runs of examples: how a batch is cut for layers whose ranks have examples of their
/// own, and which runs a rank has.
namespace norn {

/// A batch cut into runs of consecutive examples. A function of the number of examples alone: not
/// of ranks, threads or device. What is summed over examples is summed run by run, then over the
/// runs in their order, so no bit depends on who has which.
class ExamplePartition {
 public:
  /// The last runs may be short, or have no example.
  static constexpr Index kRuns = 8;
  ExamplePartition() = default;
  /// Throws ShapeError for a negative number.
  static ExamplePartition make(Index examples);

  Index examples() const { return examples_; }
  Index run_length() const { return (examples_ + kRuns - 1) / kRuns; }
  Range examples(Index run) const;
  /// The runs of `rank` of `ranks`, and their examples: dealt as BlockPartition deals blocks, so
  /// that ranks beyond the eighth have none.
  static Range runs_of(int rank, int ranks);
  Range examples_of(int rank, int ranks) const;
  /// Examples that a rank may have of this batch or of a shorter one, whose last runs are longer
  /// than these now and then: of 9, the last 4 runs have 1, of 8 they have 4.
  Index most_of(int rank, int ranks) const;
  bool operator==(const ExamplePartition&) const = default;

 private:
  Index examples_ = 0;
};

}  // namespace norn
