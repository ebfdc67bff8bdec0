// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/network.h"
#include "src/engine/input_layer.h"
#include "src/engine/target_runs.h"

#include <optional>

/// What a Network keeps for output layers and for shared weights.
namespace norn {

/// The gradient that one connection gives to weights that it shares with others.
struct Network::SharedGradient {
  Matrix<float> part;  ///< this connection's
  Matrix<float> sum;  ///< at the owner's edge: all connections', in the order in which their layers
                      ///< go backward
};

/// An output layer at work, streamed block by block.
struct Network::OutputState {
  Buffer<float>
      kept_z;  ///< pre-activations of all own blocks, block after block; empty: recomputed
  Matrix<float> block_maximum;            ///< [own blocks x B], SoftMax
  Matrix<float> block_sum;                ///< [own blocks x B]
  Matrix<float> rank_maximum;             ///< [ranks x B], with several ranks
  Buffer<float> maximum;                  ///< [B]
  Buffer<std::int64_t> total;             ///< [B]
  Buffer<std::int64_t> coupling;          ///< [B]
  std::optional<TargetRuns> target_runs;  ///< where fused_delta() may take blocks
};

}  // namespace norn
