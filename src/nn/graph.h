// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "norn/base/problem.h"
#include "src/nn/descriptor.h"
#include "src/nn/shapes.h"

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

/// From a source layer to a destination layer: of the kind that the destination's type has, or a
/// skip.
struct Edge {
  int source = 0;
  int destination = 0;
  EdgeKind kind = EdgeKind::matrix;
  int shared_with = -1;     ///< edge whose weights these are, or -1
  bool transposed = false;  ///< used the other way round than there
  bool has_weights() const { return kind == EdgeKind::matrix; }
  bool by_unit() const { return rules_of(kind).by_unit; }
  bool from_all() const { return rules_of(kind).from_all; }
};

struct Graph {
  NetworkDescriptor network;  ///< names, sizes and sources filled in
  std::vector<int> order;  ///< layers, sources before destinations; ties in the order of the file
  /// By destination in file order, then in the order of its sources; behind them all skips.
  std::vector<Edge> edges;
  std::vector<std::vector<int>> sources;       ///< edges into each layer
  std::vector<std::vector<int>> destinations;  ///< edges out of each layer
  std::vector<int> unused;  ///< layers that lead to no output; none when there is no output at all

  int layer(const std::string& name) const;  ///< -1 when there is none
  /// Of the edges into a layer, those that are weight matrices.
  std::vector<int> matrices(int layer) const;
};

/// Of an edge that is a weight matrix.
EdgeMatrix matrix_of(const Graph& graph, int edge);

/// Units of a layer that stand together at each place where it is computed by example, channels
/// last: those of its last axis, or all of them where they have the order of files.
Index channels_together(const Graph& graph, int layer);

/// Resolves a descriptor. Names and sources that are left out take their defaults: <Kind><number>
/// and the layer before. Throws UsageError, all errors at once, a line each, for values and keys
/// that a text could not have said either, unknown or missing sources, cycles (named), `auto`
/// without its data set, layers narrower than their data, windows that do not fit, activations and
/// skips of pooling layers, sparse data in front of windows, skips of another size, shared weights
/// that do not fit, that lead to no output or that a sparse input would use both ways round, layers
/// of zero width, and networks without an input. `where` names the descriptor in messages, which
/// give the line where a text was read. In the graph's descriptor every size is a number: "auto" is
/// the data set's, and Convolutional and Pooling layers have those that follow from their sources
/// and windows.
Graph make_graph(NetworkDescriptor network, const std::vector<DatasetShape>& datasets,
                 const std::string& where);

/// The same checks as far as they need no data sets, before those are opened. Throws as
/// make_graph().
void check_network(const NetworkDescriptor& network, const std::string& where);

/// The axes of an Input layer along which its images stand, from x on: x and y, as far as it has
/// them, or x alone where a layer that it feeds has its channels along y.
int image_axes(const Graph& graph, int layer);

/// Whether training moves or mirrors the images of an Input layer with this data set.
bool augments(const NetworkDescriptor& network, const std::string& dataset);

/// Whether a layer sees the units of one by their number or place, so that they cannot be sparse.
bool needs_dense_units(const NetworkDescriptor& network, const std::string& source);

/// What a network is asked to do.
enum class Use { prediction, training };

/// The reason why this build cannot use this network so, or nothing: convolution and pooling
/// layers, output layers that feed others, layers of kind Target; to train it, dropout of Output
/// and SoftMax layers.
std::optional<std::string> why_not_runnable(const Graph& graph, Use use);
/// Throws a UsageError with all such reasons, with their places.
void require_runnable(const Graph& graph, Use use, const std::string& where);

/// Something that is wrong with a layer: with its key, or with an empty one with the layer itself.
/// At the line of `where` where a text was read.
Problem problem_of(const NetworkDescriptor& network, std::size_t layer, const std::string& key,
                   const std::string& message, const std::string& where);

}  // namespace norn
