// SPDX-License-Identifier: Apache-2.0
// Prediction: outputs block by block, activations of hidden layers, the cost of regularisation.
#include "norn/base/error.h"
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

namespace norn {

void Network::predict(const BoundBatch& batch, int output_layer, const BlockVisitor& visit) {
  UnitLayer* layer = unit_layer(output_layer);
  require(layer != nullptr && layer->is_output(),
          "Network::predict: the layer is no Output layer of this network");
  require(batch.examples >= 1 && batch.examples <= batch_,
          "Network::predict: batch is empty or larger than planned");
  const StepPosition position;
  forward_hidden(batch, Pass::prediction, position);
  OutputState& state = *outputs_[std::size_t(output_layer)];
  if (layer->is_softmax()) softmax_rows(output_layer, nullptr, batch.examples);
  const Compute& compute = context_.compute;
  const Range blocks =
      layer->partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
    const Range units = layer->partition().units(blocks.begin + b);
    const MatrixView<float> z = block_z(*layer, units, batch.examples, lane);
    if (!layer->is_softmax() || state.kept_z.empty()) pre_activation(*layer, units, z);
    if (layer->is_softmax())
      compute.kernels.cost->softmax_values(rows_of(state, batch.examples), z);
    else
      compute.kernels.pointwise->activate(std::get<Activation>(layer->descriptor().activation), z);
    visit(units, z, lane);
  });
}

MatrixView<const float> Network::activations(const BoundBatch& batch, int hidden_layer) {
  UnitLayer* layer = unit_layer(hidden_layer);
  require(layer != nullptr && !layer->is_output(),
          "Network::activations: the layer is no Hidden layer of this network");
  require(batch.examples >= 1 && batch.examples <= batch_,
          "Network::activations: batch is empty or larger than planned");
  forward_hidden(batch, Pass::prediction, StepPosition{});
  return layer->whole(batch.examples);
}

double Network::regularization_cost() {
  FixedSum squares;
  FixedSum magnitudes;
  const int ranks = context_.communicator.size();
  for (std::size_t e = 0; e < weights_.size(); ++e) {
    if (!weights_[e]) continue;
    Weights& weights = *weights_[e];
    const BlockPartition& partition = units_[std::size_t(graph_.edges[e].destination)]->partition();
    const Range blocks = partition.blocks_of(context_.communicator.rank(), ranks);
    std::vector<std::array<double, 2>> sums(std::size_t(blocks.count()));
    context_.compute.executor.for_each(blocks.count(), [&](Index b, int) {
      std::array<double, 2>& sum = sums[std::size_t(b)];
      context_.compute.kernels.update->norms(weights.values_of(partition.units(blocks.begin + b)),
                                             &sum[0], &sum[1]);
    });
    for (const auto& sum : sums) {
      squares.add(sum[0]);
      magnitudes.add(sum[1]);
    }
  }
  const double l2 = context_.communicator.all_reduce(squares).value();
  const double l1 = context_.communicator.all_reduce(magnitudes).value();
  return 0.5 * double(schedule_.l2) * l2 + double(schedule_.l1) * l1;
}

}  // namespace norn
