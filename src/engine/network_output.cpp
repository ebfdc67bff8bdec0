// SPDX-License-Identifier: Apache-2.0
// Output layers, streamed block by block: pre-activation, cost, delta, the sources' delta, weights.
// The batch x width matrix never exists as a whole, except where it is small enough to be kept
// between the passes of SoftMax.
#include "norn/base/error.h"
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

#include <cmath>

#include <fmt/format.h>

namespace norn {
namespace {

UnitCost unit_cost(const NetworkDescriptor& network, const LayerDescriptor& layer) {
  return {std::get<Activation>(layer.activation), network.loss, network.boost_one,
          network.boost_zero};
}

SoftMaxCost softmax_cost(const NetworkDescriptor& network) {
  return {network.loss, network.target_weight};
}

}  // namespace

void Network::pre_activation(const UnitLayer& layer, Range units, MatrixView<float> z) {
  const Compute& compute = context_.compute;
  const Index first = units.begin - layer.mine().begin;
  compute.kernels.pointwise->set_rows(layer.bias.value.view().range(first, units.count()), z);
  for (std::size_t c = 0; c < layer.connections.size(); ++c)
    layer.connections[c].forward(compute, output_of(layer.source_layers[c], z.rows), units, z);
  for (int skip : graph_.skips[std::size_t(layer.settings().number)])
    compute.kernels.pointwise->add(
        output_of(skip, z.rows).dense.columns(units.begin, units.count()), z);
}

TargetView Network::target_view(int layer, const BoundBatch& batch) const {
  const HostBatch* data = batch.of_layer[std::size_t(layer)];
  require(data != nullptr, "Network: an output layer has no data set");
  TargetView target;
  target.is_sparse = data->is_sparse;
  if (data->is_sparse) {
    target.sparse = data->csr();
    target.sparse.cols = units_[std::size_t(layer)]->partition().width();  // may exceed the data's
  } else {
    target.dense = data->matrix();
  }
  target.ignore_absent = batch.ignore_absent[std::size_t(layer)];
  target.weight = {data->weight.data(), Index(data->weight.size())};
  return target;
}

// Where a block's pre-activations go: their kept place, or the lane's scratch.
MatrixView<float> Network::block_z(const UnitLayer& layer, Range units, Index examples, int lane) {
  OutputState& state = *outputs_[std::size_t(layer.settings().number)];
  if (state.kept_z.empty())
    return {scratch_[std::size_t(lane)].z.view().data, examples, units.count(), units.count()};
  const Index first = units.begin - layer.mine().begin;
  return {state.kept_z.data() + first * batch_, examples, units.count(), units.count()};
}

SoftMaxRows Network::rows_of(const OutputState& state, Index examples) const {
  return {state.maximum.view().range(0, examples), state.total.view().range(0, examples),
          state.coupling.view().range(0, examples)};
}

// What the blocks of a SoftMax layer must know of each other: maximum and total of every row, and,
// for a target, the coupling of its deltas.
void Network::softmax_rows(int number, const TargetView* target, Index examples) {
  UnitLayer& layer = *units_[std::size_t(number)];
  OutputState& state = *outputs_[std::size_t(number)];
  const Compute& compute = context_.compute;
  Communicator& communicator = context_.communicator;
  const Range blocks = layer.partition().blocks_of(communicator.rank(), communicator.size());
  const auto for_blocks = [&](const auto& body) {
    compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
      body(b, layer.partition().units(blocks.begin + b), lane);
    });
  };
  const MatrixView<float> maxima{state.block_maximum.view().data, blocks.count(), examples, batch_};
  const MatrixView<float> sums{state.block_sum.view().data, blocks.count(), examples, batch_};
  for_blocks([&](Index b, Range units, int lane) {
    const MatrixView<float> z = block_z(layer, units, examples, lane);
    pre_activation(layer, units, z);
    compute.kernels.cost->softmax_statistics(z, {maxima.row(b), examples}, {sums.row(b), examples});
  });
  const VectorView<float> maximum = state.maximum.view().range(0, examples);
  compute.kernels.cost->softmax_maximum(maxima, maximum);
  communicator.all_reduce_max({maximum.data, std::size_t(examples)});
  state.total.fill_zero();
  compute.kernels.cost->softmax_total(maxima, sums, maximum, state.total.view().range(0, examples));
  communicator.all_reduce_sum({state.total.data(), std::size_t(examples)});
  if (!target) return;

  const SoftMaxCost cost = softmax_cost(graph_.network);
  const VectorView<std::int64_t> coupling = state.coupling.view().range(0, examples);
  state.coupling.fill_zero();
  if (CostKernels::coupling_from_targets(cost)) {
    compute.kernels.cost->softmax_coupling(cost, *target, coupling);
    return;
  }
  const SoftMaxRows rows = rows_of(state, examples);
  std::vector<std::vector<std::int64_t>> parts(std::size_t(blocks.count()));
  for_blocks([&](Index b, Range units, int lane) {
    const MatrixView<float> z = block_z(layer, units, examples, lane);
    if (state.kept_z.empty()) pre_activation(layer, units, z);
    parts[std::size_t(b)].assign(std::size_t(examples), 0);
    compute.kernels.cost->softmax_coupling(cost, *target, units.begin, z, rows,
                                           {parts[std::size_t(b)].data(), examples});
  });
  for (const auto& part : parts)
    for (Index e = 0; e < examples; ++e) coupling[e] += part[std::size_t(e)];
  communicator.all_reduce_sum({coupling.data, std::size_t(examples)});
}

// Delta of a block in place of its pre-activations; returns its cost.
double Network::block_delta(int number, const TargetView& target, Range units,
                            MatrixView<float> z) {
  const LayerDescriptor& descriptor = units_[std::size_t(number)]->descriptor();
  CostKernels& kernels = *context_.compute.kernels.cost;
  double cost = 0.0;
  if (units_[std::size_t(number)]->is_softmax())
    kernels.softmax_delta(softmax_cost(graph_.network), target, units.begin,
                          rows_of(*outputs_[std::size_t(number)], z.rows), z, &cost);
  else
    kernels.delta(unit_cost(graph_.network, descriptor), target, units.begin, z, &cost);
  return cost;
}

// DeltaNorm needs the norm of whole rows before the first block is used: one pass for the squares
// alone.
void Network::clip_output_deltas(int number, const TargetView& target, Index examples) {
  UnitLayer& layer = *units_[std::size_t(number)];
  const Range blocks =
      layer.partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  std::vector<std::vector<double>> parts(std::size_t(blocks.count()),
                                         std::vector<double>(std::size_t(examples)));
  context_.compute.executor.for_each(blocks.count(), [&](Index b, int) {
    const Range units = layer.partition().units(blocks.begin + b);
    Matrix<float> z(examples, units.count(), context_.compute.memory);
    pre_activation(layer, units, z.view());
    block_delta(number, target, units, z.view());
    context_.compute.kernels.normalization->row_squares(z.view(),
                                                        {parts[std::size_t(b)].data(), examples});
  });
  outputs_[std::size_t(number)]->row_squares = reduce_row_squares(parts, examples);
}

FixedSum Network::run_output(int number, const BoundBatch& batch, const StepPosition& position) {
  UnitLayer& layer = *units_[std::size_t(number)];
  OutputState& state = *outputs_[std::size_t(number)];
  const TargetView target = target_view(number, batch);
  const WeightStep step = weight_step(position, batch.examples);
  const float limit = layer.descriptor().delta_norm;
  if (layer.is_softmax()) softmax_rows(number, &target, batch.examples);
  if (limit > 0.0f) clip_output_deltas(number, target, batch.examples);

  const Range blocks =
      layer.partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  std::vector<double> costs(std::size_t(blocks.count()), 0.0);
  context_.compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
    const Range units = layer.partition().units(blocks.begin + b);
    const MatrixView<float> z = block_z(layer, units, batch.examples, lane);
    if (!layer.is_softmax() || state.kept_z.empty()) pre_activation(layer, units, z);
    costs[std::size_t(b)] = block_delta(number, target, units, z);
    if (limit > 0.0f)
      context_.compute.kernels.normalization->clip_rows(
          limit, {state.row_squares.data(), batch.examples}, z);
    for (int skip : graph_.skips[std::size_t(number)])
      if (units_[std::size_t(skip)])
        units_[std::size_t(skip)]->delta_sum.add(context_.compute, units.begin, z);
    backward_block(layer, units, z, step, lane, true);
  });
  finish_sparse(layer, step);
  add_shared_gradients(layer);

  FixedSum cost;
  bool finite = true;
  for (double c : costs) {
    finite = finite && std::isfinite(c);
    if (finite) cost.add(c);
  }
  if (context_.communicator.any(!finite))
    throw DivergenceError(fmt::format(
        "layer \"{}\": the cost is not finite at step {} (epoch {}); lower the learning "
        "rate and resume from the last checkpoint",
        layer.descriptor().name, position.step, position.epoch + 1));
  return context_.communicator.all_reduce(cost);
}

}  // namespace norn
