// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/kernels/column_runs.h"
#include "norn/tensor/block_partition.h"

#include <algorithm>

/// Canonical blocks of an output layer that a GPU goes through together.
namespace norn {

/// Kernels whose bits do not depend on how many units they are called with take several small
/// blocks at once, which saves what each call costs besides its work. Not so many that their deltas
/// fill the memory; and cost and deltas of their sources remain those of each block.
inline Index blocks_at_once(const BlockPartition& partition, Index batch) {
  constexpr Index kMostDeltas = Index(1) << 25;  // elements: 64 or 128 MiB
  constexpr Index kMostBlocks = 8;
  if (partition.block_width() % ColumnRuns::kWidth != 0) return 1;  // tiles would be of two
  const Index units = kMostDeltas / batch;
  const Index blocks =
      partition.width() <= units ? partition.blocks() : units / partition.block_width();
  return std::clamp<Index>(blocks, 1, kMostBlocks);
}

/// Units of as many blocks. What is kept for them has rows of this length on any number of ranks.
inline Index units_at_once(const BlockPartition& partition, Index batch) {
  return std::min(partition.width(), blocks_at_once(partition, batch) * partition.block_width());
}

}  // namespace norn
