// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/graph.h"
#include "src/step/layouts.h"
#include "src/tensor/block_partition.h"

#include <vector>

/// By which units the ranks share out a weight matrix.
namespace norn {

/// By destination units: activations of the source are gathered, the ranks' parts of its delta
/// added up. By source units: the ranks' parts of the destination's pre-activations are added up,
/// its delta is gathered. docs/user/parallel.md shows both.
struct Sharding {
  std::vector<bool> by_source;  ///< by edge; the others are shared out by destination
  /// By layer: whether ranks gather its activations and reduce its delta. If not, all edges from it
  /// are shared out by source: no rank reads another's activations, and the delta of a unit is
  /// summed where it is.
  std::vector<bool> gathered;
};

/// What moves fewer bytes, from widths and batch alone: the choice fixes the order of sums, so
/// ranks, free memory and data must not have a say. `takes_part`: by layer.
///
/// In a step an element of a gathered layer costs the ranks 4 bytes forward (a float to gather) and
/// 8 backward (an accumulator to add up), an element of the destination of an edge by source 8
/// forward and 4 backward. A source is gathered as a whole, so all of its edges are by source or
/// none is: where the layer is of a size that counts and at least four times as wide as all its
/// destinations together.
///
/// Always by destination:
/// - edges from an input layer. Every rank reads the whole batch, and no delta goes back: by
///   destination nothing moves at all.
/// - from a hidden SoftMax layer, whose rows are gathered anyway.
/// - from a layer that feeds one of a type with edges of its own.
/// - to or from a layer by example. `layouts`: by layer, or none where all are by unit.
/// - with SharedWeights, which every rank holds whole.
/// - into a layer with WeightNorm, whose rows of weights, one for each destination unit, must
///   stand on one rank.
/// - from a layer that an edge leads from unit to unit of one with other blocks: a device may cut
///   hidden and output layers of the same width into others.
/// Other edges from unit to unit exchange nothing: unit i of both layers is on one rank.
Sharding choose_sharding(const Graph& graph, const std::vector<bool>& takes_part, Index batch,
                         const BlockRule& rule, const std::vector<LayerLayout>& layouts = {});

}  // namespace norn
