// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/fused/fused.h"
#include "kernels/cuda/fused/tile_targets.cuh"

/// What is done before the tiles of an output layer and after them.
namespace norn::cuda {

/// The table of a block's targets.
TargetSource find_targets(const Stream& stream, OutputWorkspace& workspace,
                          const OutputBlock& block);

/// Whether the blocks that are given as one begin with tiles, and are not too many to be added up.
bool has_whole_tiles(const OutputBlock& block);

/// Where a block of `row_tiles` x `col_tiles` tiles leaves what add_totals() is to add up. Where
/// too many blocks wait for that, it is done first.
TileTotals totals_of(const Stream& stream, OutputWorkspace& workspace, const OutputBlock& block,
                     Index row_tiles, Index col_tiles);

/// Adds up what the tiles left, in orders that their numbers fix.
void add_totals(const Stream& stream, OutputWorkspace& workspace);

}  // namespace norn::cuda
