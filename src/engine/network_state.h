// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/engine/network.h"
#include "src/engine/input_layer.h"
#include "src/engine/later_work.h"
#include "src/engine/target_runs.h"

#include <optional>

/// What a Network keeps for output layers, for shared weights and for edges by source.
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

/// What joins a layer to sources whose weights are shared out by source units.
struct Network::SourceSum {
  DeltaSum parts;       ///< [B x all units] of pre-activations, one term for each block of a source
  Matrix<float> z;      ///< [B x own units] their sum
  Matrix<float> delta;  ///< [B x all units], in training
  Matrix<Bfloat16> rounded_delta;  ///< [B x all units], where products read it
  Index first_flag = 0;            ///< of two, among those of all sums
};

/// What goes on beside the joining of deltas.
struct Network::Overlap {
  std::vector<int> meetings;  ///< hidden layers whose deltas ranks join, in that order
  std::size_t next = 0;       ///< of them in this step
  LaterWork later;            ///< updates of weights
  std::vector<int> summed;    ///< hidden layers with a delta, in the order of their maxima
  Buffer<float> maxima;       ///< of these deltas, with several ranks
};

}  // namespace norn
