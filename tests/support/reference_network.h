// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/engine/network/network.h"
#include "tests/support/reference_windows.h"

#include <map>
#include <string>
#include <vector>

/// A network in float64, fully connected, of convolutions and pooling, written from the formulas
/// (docs/user/numerics.md) with plain loops and with none of the engine's code: the cost of a batch
/// as a function of all parameters.
namespace norn::reference {

using Rows = std::vector<Row>;  // [examples][units]

/// All parameters. Those of layers and edges that have none are empty.
struct Parameters {
  /// By edge, [source * destinations + destination], of convolutions [K][C][z][y][x]; empty when
  /// shared.
  std::vector<Row> weight;
  /// Vectors of units by their names in model files, then by layer.
  std::map<std::string, std::vector<Row>> unit;

  /// By layer.
  std::vector<Row>& of(const std::string& item) { return unit[item]; }
  const std::vector<Row>& of(const std::string& item) const { return unit.at(item); }
};

/// One source of one layer, in the order of the layers and of their sources.
struct Link {
  int source = 0;
  int destination = 0;
  int owner = 0;  ///< the link whose weights these are: itself unless shared
  bool transposed = false;
  int users = 1;  ///< links that use this one's weights
};

/// Everything that a forward pass computes.
struct Activity {
  std::vector<Rows> z;         ///< by layer: pre-activations, before batch normalisation
  std::vector<Rows> argument;  ///< norm(z)
  std::vector<Rows> activity;  ///< f(argument), before dropout; SoftMax outputs too
  std::vector<Rows> output;    ///< what the next layers see
  std::vector<Row> batch_mean;
  std::vector<Row> batch_variance;  ///< over B
};

class Network {
 public:
  /// `batch` is the largest batch that the engine plans for: dropout masks depend on it.
  /// Pass::training: dropout, denoising and the batch's own statistics.
  Network(NetworkDescriptor network, Index batch, Pass pass, StepPosition position = {});

  /// By layer, [units]; empty where features are not weighted.
  void set_feature_weights(std::vector<std::vector<float>> weights) {
    feature_weight_ = std::move(weights);
  }
  const NetworkDescriptor& descriptor() const { return network_; }
  const std::vector<Link>& links() const { return links_; }
  int layer(const std::string& name) const;

  /// `offset`, when not empty, is added to the pre-activations of layer `offset_layer`.
  Activity forward(const Parameters& parameters, const BoundBatch& batch, int offset_layer = -1,
                   const Rows& offset = {}) const;

  /// The reported cost: summed over the examples, units and output layers.
  double cost(const Activity& activity, const BoundBatch& batch) const;
  /// What training goes down: cost and sparseness penalties.
  double objective(const Activity& activity, const BoundBatch& batch) const;
  double penalty(const Activity& activity) const;

  /// d objective / d pre-activation of a layer, by central differences.
  Rows deltas(const Parameters& parameters, const BoundBatch& batch, int layer) const;
  /// Factor of every delta of an output layer that is no part of its derivative: DeltaBoost, and 0
  /// for the absent entries of a SoftMax layer under SparseIgnoreZero.
  Rows delta_factors(const BoundBatch& batch, int output_layer) const;

  /// How near the batch comes to a point where the objective bends or jumps, in units of z or y.
  double distance_to_kinks(const Activity& activity, const BoundBatch& batch) const;

 private:
  void find_links();
  void resolve_sharing();
  void order_layer(int layer, std::vector<int>& mark);
  std::vector<const LayerDescriptor*> sources_of(int layer) const;
  std::vector<const Row*> outputs_of_sources(int layer, const Activity& activity,
                                             std::size_t example) const;
  void pool_layer(int layer, Activity& activity) const;
  /// Whether a layer's values move with the parameters: not data, nor what is pooled of data.
  bool follows_parameters(int layer) const;
  Rows input(int layer, const BoundBatch& batch) const;
  Rows pre_activation(int layer, const Parameters& parameters, const Activity& activity) const;
  void normalise(int layer, const Parameters& parameters, Activity& activity, Rows& z) const;
  void drop(int layer, Rows& y) const;

  NetworkDescriptor network_;
  Index batch_;
  Pass pass_;
  StepPosition position_;
  std::vector<Link> links_;
  std::vector<int> order_;
  std::vector<std::vector<float>> feature_weight_;
};

}  // namespace norn::reference
