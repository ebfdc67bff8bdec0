// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/column_runs.h"
#include "src/nn/connection.h"
#include "src/tensor/block_partition.h"

#include <algorithm>

/// Canonical blocks of an output layer that a GPU goes through together.
namespace norn {

/// Kernels whose bits do not depend on how many units they are called with take several small
/// blocks at once, which saves what each call costs besides its work. Not so many that their deltas
/// fill the memory; and cost and deltas of their sources remain those of each block.
inline Index blocks_at_once(const BlockPartition& partition, Index batch) {
  constexpr Index kMostDeltas = Index(1) << 27;  // elements: 256 MiB, in tf32 twice 512 MiB
  constexpr Index kMostBlocks = 8;
  if (partition.block_width() % ColumnRuns::kWidth != 0) return 1;  // tiles would be of two
  const Index units = kMostDeltas / batch;
  const Index blocks =
      partition.width() <= units ? partition.blocks() : units / partition.block_width();
  return std::clamp<Index>(blocks, 1, kMostBlocks);
}

/// The stride of bf16 copies with `cols` columns. Rows begin at cache lines (128 bytes), so that
/// the 64 columns that tensor cores read at a time lie in one line.
constexpr Index bf16_stride(Index cols) {
  return (cols + 63) / 64 * 64;
}

/// Columns of the pre-activations of a SoftMax layer that stay between its passes, of `blocks`
/// blocks with `units` units. In predictions rows lie as they do in a lane's workspace: which
/// of the two takes them follows from the batch, and products may go by how rows lie.
inline Index kept_columns(const BlockPartition& partition, Index blocks, Index units,
                          bool training) {
  return training ? units : blocks * round_up_to_eight(partition.block_width());
}

/// blocks_at_once() for a pass that leaves two numbers of every tile and row: SoftMax's first.
inline Index blocks_of_statistics(const BlockPartition& partition, Index batch) {
  constexpr Index kMostNumbers = Index(1) << 22;  // pairs of floats: 32 MiB
  if (partition.block_width() % ColumnRuns::kWidth != 0) return 1;
  const Index of_block =
      ColumnRuns::runs_of(partition.block_width()) * ColumnRuns::stride_of(batch);
  return std::clamp<Index>(kMostNumbers / of_block, 1, partition.blocks());
}

/// Bytes of those numbers, as a kernel reserves them: a quarter more.
inline Index bytes_of_statistics(const BlockPartition& partition, Index own_units, Index batch) {
  const Index units =
      std::min(own_units, blocks_of_statistics(partition, batch) * partition.block_width());
  return ColumnRuns::runs_of(units) * ColumnRuns::stride_of(batch) * 2 * Index(sizeof(float)) * 5 /
         4;
}

/// Units of as many blocks. What is kept for them has rows of this length on any number of ranks.
inline Index units_at_once(const BlockPartition& partition, Index batch) {
  return std::min(partition.width(), blocks_at_once(partition, batch) * partition.block_width());
}

}  // namespace norn
