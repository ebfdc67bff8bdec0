// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/stream.h"
#include "kernels/fused.h"

#include <vector>

/// The fused products of compute capability 9.0, one function each. All return false, having done
/// nothing, for what they do not support.
namespace norn::cuda {

/// FusedKernels::update in bfloat16.
bool update_bfloat16(const Stream& stream, const UpdateRule& rule, const UpdateStep& step,
                     MatrixView<const Bfloat16> delta, MatrixView<const Bfloat16> x, float scale,
                     WeightView w, SlotViews slot);

/// What the units of a row of a SoftMax layer have in common.
struct alignas(16) SoftMaxTileRow {
  float maximum;    ///< of the pre-activations
  float factor;     ///< of 2^(log2(e) z - shift) in a delta, shift being log2(e) maximum, rounded
  float unit;       ///< what a target of 1 counts for
  float log_total;  ///< ln of the sum of e^(z - maximum)
};

/// What the tiles of a block leave to be added up.
struct TileTotals {
  double* tile_cost = nullptr;  ///< [row_tiles x at least col_tiles]
  Index tile_stride = 0;
  Index col_tiles = 0;
  double* cost = nullptr;
  float* tile_gradient = nullptr;  ///< [row_tiles x cols] or null
  Index row_tiles = 0;
  Index cols = 0;
  double scale = 1.0;
  float* gradient = nullptr;  ///< [cols]
};

/// What output_delta keeps from one kernel to another.
struct OutputWorkspace {
  static constexpr int kMostTotals = 8;
  struct Tiles {
    explicit Tiles(Memory& memory) : cost(memory), gradient(memory) {}
    Workspace<double> cost;
    Workspace<float> gradient;
  };
  explicit OutputWorkspace(Memory& memory)
      : target_offset(memory), statistics(memory), softmax_row(memory) {
    for (int i = 0; i < kMostTotals; ++i) tiles.emplace_back(memory);
  }

  Workspace<int> target_offset;
  Workspace<float2> statistics;           ///< of tiles of a SoftMax layer
  Workspace<SoftMaxTileRow> softmax_row;  ///< of the SoftMax layer whose loss is computed
  std::vector<Tiles> tiles;               ///< of the blocks to come before the next totals
  std::vector<TileTotals> pending;        ///< of the blocks since the last totals
};

/// FusedKernels::softmax_statistics and softmax_rows.
bool softmax_statistics(const Stream& stream, OutputWorkspace& workspace, const OutputBlock& block,
                        MatrixView<float> maximum, MatrixView<float> sum);
void softmax_rows(const Stream& stream, OutputWorkspace& workspace, const SoftMaxCost& rule,
                  const TargetView& target, const SoftMaxRows& rows);

/// Whether the precision's kernels can take a block's product and its targets together.
bool takes_product_bfloat16(const OutputBlock& block);
bool takes_product_float(const OutputBlock& block);

/// FusedKernels::output_delta in bfloat16.
bool output_delta_bfloat16(const Stream& stream, OutputWorkspace& workspace,
                           const OutputBlock& block);
/// FusedKernels::output_delta in tf32.
bool output_delta_float(const Stream& stream, OutputWorkspace& workspace, const OutputBlock& block);

}  // namespace norn::cuda
