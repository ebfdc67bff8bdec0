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
  load(batch, Pass::prediction, StepPosition{});
  context_.compute.kernels.queue->run([&] { enqueue_prediction(batch, output_layer, visit); });
  require_sums_in_range();
}

void Network::enqueue_prediction(const BoundBatch& batch, int output_layer,
                                 const BlockVisitor& visit) {
  UnitLayer* layer = unit_layer(output_layer);
  begin_prediction(batch.examples);
  forward_hidden(batch, Pass::prediction, StepPosition{});
  sum_source_parts(output_layer, batch.examples);
  OutputState& state = *outputs_[std::size_t(output_layer)];
  if (layer->is_softmax()) softmax_rows(output_layer, nullptr, batch.examples);
  const Compute& compute = context_.compute;
  const Range blocks =
      layer->partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
    const Range units = layer->partition().units(blocks.begin + b);
    const MatrixView<float> z = block_z(*layer, units, batch.examples, lane);
    if (!layer->is_softmax() || state.kept_z.empty()) pre_activation(*layer, units, z);
    activate_block(*layer, state, z);
    visit(units, z, lane);
  });
}

// An output layer's values in place of its pre-activations.
void Network::activate_block(const UnitLayer& layer, const OutputState& state,
                             MatrixView<float> z) {
  const Kernels& kernels = context_.compute.kernels;
  if (layer.is_softmax())
    kernels.cost->softmax_values(rows_of(state, z.rows), z);
  else
    kernels.pointwise->activate(std::get<Activation>(layer.descriptor().activation), z);
}

MatrixView<const float> Network::activations(const BoundBatch& batch, int hidden_layer) {
  UnitLayer* layer = unit_layer(hidden_layer);
  require(layer != nullptr && !layer->is_output(),
          "Network::activations: the layer is no Hidden layer of this network");
  require(batch.examples >= 1 && batch.examples <= batch_,
          "Network::activations: batch is empty or larger than planned");
  load(batch, Pass::prediction, StepPosition{});
  const Compute& compute = context_.compute;
  compute.kernels.queue->run([&] {
    begin_prediction(batch.examples);
    forward_hidden(batch, Pass::prediction, StepPosition{});
    if (!layer->settings().is_joined)  // no other layer needed them all
      context_.collectives->all_gather_columns(layer->whole(batch.examples),
                                               shares_[std::size_t(hidden_layer)]);
  });
  require_sums_in_range();
  const MatrixView<float> values = layer->whole(batch.examples);
  if (compute.memory.is_host()) return values;
  return in_main_memory(values);
}

MatrixView<const float> Network::in_main_memory(MatrixView<const float> values) {
  context_.collectives->wait_for_all(*context_.compute.kernels.queue);
  if (host_values_.size() < values.size()) host_values_ = Buffer<float>(values.size());
  context_.compute.memory.read(values.data, host_values_.data(),
                               std::size_t(values.size()) * sizeof(float));
  return {host_values_.data(), values.rows, values.cols, values.cols};
}

MatrixView<const float> Network::outputs(const BoundBatch& batch, int output_layer) {
  const Compute& compute = context_.compute;
  const Index width = graph_.network.layers.at(std::size_t(output_layer)).units();
  Matrix<float> all(batch.examples, width, compute.memory);
  predict(batch, output_layer, [&](Range units, MatrixView<const float> y, int) {
    compute.kernels.pointwise->copy(y, all.view().columns(units.begin, units.count()));
  });
  return in_main_memory(all.view());
}

double Network::regularization_cost() {
  FixedSum squares;
  FixedSum magnitudes;
  const int ranks = context_.communicator.size();
  for (std::size_t e = 0; e < weights_.size(); ++e) {
    if (!weights_[e]) continue;
    Weights& weights = *weights_[e];
    const Edge& edge = graph_.edges[e];
    const int cut = weights.shape().by_source ? edge.source : edge.destination;
    const BlockPartition& partition = units_[std::size_t(cut)]->partition();
    const Range blocks = partition.blocks_of(context_.communicator.rank(), ranks);
    Buffer<double> sums(2 * blocks.count(), context_.compute.memory);
    context_.compute.executor.for_each(blocks.count(), [&](Index b, int) {
      double* sum = sums.data() + 2 * b;
      context_.compute.kernels.update->norms(weights.values_of(partition.units(blocks.begin + b)),
                                             sum, sum + 1);
    });
    std::vector<double> host(std::size_t(sums.size()));
    sums.read(host.data(), sums.size());
    for (std::size_t i = 0; i < host.size(); i += 2) {
      squares.add(host[i]);
      magnitudes.add(host[i + 1]);
    }
  }
  const double l2 = context_.communicator.all_reduce(squares).value();
  const double l1 = context_.communicator.all_reduce(magnitudes).value();
  return 0.5 * double(schedule_.l2) * l2 + double(schedule_.l1) * l1;
}

}  // namespace norn
