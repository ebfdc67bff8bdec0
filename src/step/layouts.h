// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/nn/graph.h"
#include "src/tensor/tensor.h"

#include <string>
#include <vector>

/// Whether ranks share a layer's units out between them, or the examples of a batch.
namespace norn {

struct LayerLayout {
  Layout layout = Layout::by_unit;  ///< or by_example
  std::string reason;               ///< "it is Convolutional", for plans
};

/// By layer, from the graph and from what is sparse alone: the choice fixes the order of sums, so
/// ranks, devices and free memory must not have a say.
///
/// By example: Convolutional layers; Pooling layers with a window, and LRN; the others (Maxout,
/// DotProduct, Cosine) as their first source; a dense Input layer that feeds such layers alone;
/// and hidden layers of `forced`, which holds one entry a layer or none. All others are by unit.
std::vector<LayerLayout> choose_layouts(const Graph& graph, const std::vector<bool>& takes_part,
                                        const std::vector<bool>& sparse_input,
                                        const std::vector<bool>& forced);

}  // namespace norn
