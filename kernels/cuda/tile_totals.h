// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/fused.h"
#include "kernels/cuda/tile_targets.cuh"

/// What is done before the tiles of an output layer and after them.
namespace norn::cuda {

/// What the tiles of a block leave to be added up.
struct TileTotals {
  const double* tile_cost;  ///< [tiles]
  Index tiles;
  double* cost;
  const float* tile_gradient;  ///< [row_tiles x cols] or null
  Index row_tiles;
  Index cols;
  double scale;
  float* gradient;  ///< [cols]
};

/// The table of a block's targets.
TargetSource find_targets(const Stream& stream, Scratch<int>& scratch, const OutputBlock& block);

/// Adds up what the tiles left, in orders that their numbers fix.
void add_totals(const Stream& stream, const TileTotals& totals);

}  // namespace norn::cuda
