// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/model/model_arrays.h"
#include "src/engine/network/network.h"

#include <functional>
#include <string>
#include <vector>

/// Parameters as whole vectors and matrices, whatever the ranks: what a model file holds.
namespace norn {

/// Those of a layer's vectors that files hold as items of the layer: with the state of the update
/// rule in files that can be resumed from, and without the bias of a layer that has weight
/// matrices, with which they keep it.
std::vector<HeldBuffer<float>*> layer_vectors(Network& network, int layer, bool with_state);
/// Its state of any other shape, in files that can be resumed from.
std::vector<SavedArray> layer_arrays(Network& network, int layer);
/// "layer3_scaleBN"
std::string layer_item(int layer, const Tensor& array);

/// The item of a file that holds the weights of an input layer's features, and their name beside
/// those of Network::parameters().
std::string feature_weights_item(int layer);
std::string feature_weights_name(const std::string& layer);

/// The attributes weight{w}_{axis} of a matrix, and their values: outputs and inputs of a
/// FullyConnected layer; of a convolution K, C and the kernel, slowest axis first; then 1.
inline constexpr std::array kWeightAxes = {"width", "height", "length", "depth", "breadth"};
std::array<Index, kWeightAxes.size()> weight_extents(const Graph& graph, int edge);

/// The axes of an edge's matrix where it is an array: [inputs, outputs], of filters
/// [K, C, .., y, x].
std::vector<Index> array_extent(const Graph& graph, int edge);

/// The whole vector on every rank.
std::vector<float> gather_units(Network& network, int layer, const HeldBuffer<float>& mine);
/// This rank's units of a whole vector.
void scatter_units(Network& network, int layer, const std::vector<float>& whole,
                   HeldBuffer<float>& mine);

/// Goes through a weight matrix [sources x destinations], or filters [K x C * taps], in runs of
/// whole rows of bounded size, on every rank. part 0: values, 1 and 2: the state of the update
/// rule.
void gather_rows(Network& network, int edge, int part,
                 const std::function<void(Index first_row, MatrixView<const float> rows)>& take);
/// The same the other way round: `give` fills the rows (it is called on rank 0 only).
void scatter_rows(Network& network, int edge, int part,
                  const std::function<void(Index first_row, MatrixView<float> rows)>& give);

}  // namespace norn
