// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/connection.h"

#include <array>

/// Where the stored targets of an output layer's blocks are, for kernels that take a block's
/// product and its targets together.
namespace norn {

/// Looks up the targets of many blocks at once: of all of them while the step before is going on
/// where that is little, else of as many as there is room for when the first one is due.
class TargetRuns {
 public:
  TargetRuns() = default;
  /// `units`: those of this rank. Blocks are `block_width` wide, but for the last.
  TargetRuns(Range units, Index block_width, Index batch);
  /// How many numbers it will hold.
  Index planned_numbers() const;

  /// Starts a step with these targets. Within WorkQueue::prepare.
  void begin(const Compute& compute, const CsrView& targets);
  /// For a block and, in its step, the blocks after it.
  const ColumnRuns& find(const Compute& compute, Range block);

 private:
  bool blocks_are_runs() const;
  bool fits_at_once() const;
  Index units_at_once() const;
  Range units_;
  Index block_width_ = 0;
  Index batch_ = 0;
  std::array<Buffer<int>, 2> workspace_;  // what is prefetched must not be what is read
  std::size_t turn_ = 0;
  CsrView targets_;
  ColumnRuns runs_;
};

}  // namespace norn
