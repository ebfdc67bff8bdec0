// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/nn/descriptor.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

/// A descriptor with its names resolved: who feeds whom, in which order, with which sizes.
namespace norn {

/// What a data set tells an input or output layer that is "N": "auto", and checks the others
/// against.
struct DatasetShape {
  std::string name;
  int dimensions = 1;
  std::array<Index, 3> extent = {1, 1, 1};
  bool gives_sparse_batches = false;
};

/// One weight matrix: all units of a source layer to all units of a destination layer.
struct Edge {
  int source = 0;
  int destination = 0;
  int shared_with = -1;     ///< edge whose weights these are, or -1
  bool transposed = false;  ///< used the other way round than there
};

struct Graph {
  NetworkDescriptor network;  ///< names, sizes and sources filled in
  std::vector<int> order;   ///< layers, sources before destinations; ties in the order of the file
  std::vector<Edge> edges;  ///< by destination in file order, then in the order of its sources
  std::vector<std::vector<int>> sources;       ///< edges into each layer
  std::vector<std::vector<int>> destinations;  ///< edges out of each layer
  std::vector<std::vector<int>> skips;         ///< layers added to each layer's pre-activations
  std::vector<std::vector<int>> skip_destinations;

  int layer(const std::string& name) const;  ///< -1 when there is none
};

/// Resolves a descriptor. Throws UsageError, all errors at once, for unknown or missing sources,
/// cycles (named), `auto` without its data set, layers narrower than their data, skips of another
/// size, shared weights that do not fit, layers of zero width, and networks without an input.
/// `where` names the descriptor in messages.
Graph make_graph(NetworkDescriptor network, const std::vector<DatasetShape>& datasets,
                 const std::string& where);

/// The reason why this network cannot be trained or run by this build, or nothing: convolution and
/// pooling layers.
std::optional<std::string> why_not_runnable(const Graph& graph);

}  // namespace norn
