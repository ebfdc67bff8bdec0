// SPDX-License-Identifier: Apache-2.0
// Output layers, streamed block by block: pre-activation, cost, delta, the sources' delta, weights.
// The batch x width matrix never exists as a whole, except where it is small enough to be kept
// between the passes of SoftMax.
#include "norn/base/error.h"
#include "norn/engine/network.h"
#include "src/engine/block_group.h"
#include "src/engine/network_state.h"
#include "src/engine/rounded_rows.h"

namespace norn {
namespace {

UnitCost unit_cost(const NetworkDescriptor& network, const LayerDescriptor& layer) {
  return {std::get<Activation>(layer.activation), network.loss, network.boost_one,
          network.boost_zero};
}

SoftMaxCost softmax_cost(const NetworkDescriptor& network) {
  return {network.loss, network.target_weight, network.boost_one, network.boost_zero};
}

// So that rows of deltas begin where tensor cores can read them.
Index round_up_to_eight(Index cols) {
  return (cols + 7) / 8 * 8;
}

}  // namespace

void Network::pre_activation(const UnitLayer& layer, Range units, MatrixView<float> z) {
  const Compute& compute = context_.compute;
  const Index first = units.begin - layer.mine().begin;
  const VectorView<const float> bias = layer.bias.value.view().range(first, units.count());
  const bool at_once = !layer.connections.empty() && layer.connections[0].begins_with_bias();
  if (at_once)
    layer.connections[0].forward_from_bias(compute, output_of(layer.source_layers[0], z.rows),
                                           units, 0, bias, z);
  else
    compute.kernels.pointwise->set_rows(bias, z);
  for (std::size_t c = at_once ? 1 : 0; c < layer.connections.size(); ++c)
    if (!layer.connections[c].by_source())
      layer.connections[c].forward(compute, output_of(layer.source_layers[c], z.rows), units, 0, z);
  add_source_sum(layer, units, z);
  for (int skip : graph_.skips[std::size_t(layer.settings().number)])
    compute.kernels.pointwise->add(
        output_of(skip, z.rows).dense.values.columns(units.begin, units.count()), z);
}

TargetView Network::target_view(int layer, const BoundBatch& batch) const {
  const auto at = std::size_t(layer);
  require(batch.of_layer[at] != nullptr, "Network: an output layer has no data set");
  const BatchView& data = bound_[at];
  TargetView target;
  target.is_sparse = data.is_sparse;
  target.sparse = data.sparse;
  target.sparse.cols = units_[at]->partition().width();  // may exceed the data's
  target.dense = data.dense;
  target.ignore_absent = batch.ignore_absent[at];
  target.weight = data.weight;
  return target;
}

// Where a block's pre-activations go: their kept place, or the lane's scratch.
MatrixView<float> Network::block_z(const UnitLayer& layer, Range units, Index examples, int lane) {
  OutputState& state = *outputs_[std::size_t(layer.settings().number)];
  if (state.kept_z.empty())
    return {scratch_[std::size_t(lane)].z.view().data, examples, units.count(),
            round_up_to_eight(units.count())};
  const Index first = units.begin - layer.mine().begin;
  return {state.kept_z.data() + first * batch_, examples, units.count(), units.count()};
}

SoftMaxRows Network::rows_of(const OutputState& state, Index examples) const {
  return {state.maximum.view().range(0, examples), state.total.view().range(0, examples),
          state.coupling.view().range(0, examples)};
}

// The largest pre-activation of every row, of all ranks: each gives its own, and takes the largest.
void Network::join_maxima(OutputState& state, VectorView<float> maximum) {
  const Index ranks = context_.collectives->size();
  if (ranks == 1) return;
  const MatrixView<float> all{state.rank_maximum.view().data, ranks, maximum.size, batch_};
  std::vector<Range> rows;
  for (Index r = 0; r < ranks; ++r) rows.push_back({r, r + 1});
  context_.compute.kernels.pointwise->copy({maximum.data, 1, maximum.size, maximum.size},
                                           all.row_range(context_.collectives->rank(), 1));
  context_.collectives->all_gather_rows(all, rows);
  context_.compute.kernels.cost->softmax_maximum(all, maximum);
}

// Maximum and sum of every row of each own block, where the product that makes them is one kernel
// with it: false where it is not.
bool Network::fused_statistics(int number, const TargetView& target, MatrixView<float> maxima,
                               MatrixView<float> sums) {
  UnitLayer& layer = *units_[std::size_t(number)];
  const BlockPartition& partition = layer.partition();
  const Range blocks = own_blocks(layer);
  const Index most = blocks_of_statistics(partition, batch_);
  for (Index b = 0; b < blocks.count(); b += most) {
    const Index count = std::min(most, blocks.count() - b);
    const Range units{partition.units(blocks.begin + b).begin,
                      partition.units(blocks.begin + b + count - 1).end};
    OutputBlock block = output_block(number, target, units, maxima.cols);
    if (count > 1) block.block_width = partition.block_width();
    if (!context_.compute.kernels.fused->softmax_statistics(block, maxima.row_range(b, count),
                                                            sums.row_range(b, count)))
      return false;
  }
  return true;
}

// What the blocks of a SoftMax layer must know of each other: maximum and total of every row, and,
// for a target, the coupling of its deltas. `fuses`: run_fused_output() comes next.
void Network::softmax_rows(int number, const TargetView* target, Index examples, bool fuses) {
  UnitLayer& layer = *units_[std::size_t(number)];
  OutputState& state = *outputs_[std::size_t(number)];
  const Compute& compute = context_.compute;
  Collectives& collectives = *context_.collectives;
  const Range blocks = layer.partition().blocks_of(collectives.rank(), collectives.size());
  const auto for_blocks = [&](const auto& body) {
    compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
      body(b, layer.partition().units(blocks.begin + b), lane);
    });
  };
  const MatrixView<float> maxima{state.block_maximum.view().data, blocks.count(), examples, batch_};
  const MatrixView<float> sums{state.block_sum.view().data, blocks.count(), examples, batch_};
  if (!fuses || !fused_statistics(number, *target, maxima, sums))
    for_blocks([&](Index b, Range units, int lane) {
      const MatrixView<float> z = block_z(layer, units, examples, lane);
      pre_activation(layer, units, z);
      compute.kernels.cost->softmax_statistics(z, {maxima.row(b), examples},
                                               {sums.row(b), examples});
    });
  const VectorView<float> maximum = state.maximum.view().range(0, examples);
  compute.kernels.cost->softmax_maximum(maxima, maximum);
  join_maxima(state, maximum);
  state.total.fill_zero();
  std::int64_t* out_of_range = outcome().data() + 2 * number + 1;
  compute.kernels.cost->softmax_total(maxima, sums, maximum, state.total.view().range(0, examples),
                                      out_of_range);
  collectives.all_reduce_sum({state.total.data(), std::size_t(examples)});
  if (!target) return;

  const SoftMaxCost cost = softmax_cost(graph_.network);
  const VectorView<std::int64_t> coupling = state.coupling.view().range(0, examples);
  state.coupling.fill_zero();
  if (CostKernels::coupling_from_targets(cost)) {
    compute.kernels.cost->softmax_coupling(cost, *target, coupling, out_of_range);
    if (fuses) compute.kernels.fused->softmax_rows(cost, *target, rows_of(state, examples));
    return;
  }
  const SoftMaxRows rows = rows_of(state, examples);
  for_blocks([&](Index, Range units, int lane) {
    const MatrixView<float> z = block_z(layer, units, examples, lane);
    if (state.kept_z.empty()) pre_activation(layer, units, z);
    compute.kernels.cost->softmax_coupling(cost, *target, units.begin, z, rows, coupling,
                                           out_of_range);
  });
  collectives.all_reduce_sum({coupling.data, std::size_t(examples)});
}

// Delta of a block in place of its pre-activations, rounded too where products read that.
DenseOperand Network::block_delta(int number, const TargetView& target, Range units,
                                  MatrixView<float> z, double* cost, int lane) {
  const LayerDescriptor& descriptor = units_[std::size_t(number)]->descriptor();
  CostKernels& kernels = *context_.compute.kernels.cost;
  MatrixView<Bfloat16> rounded;
  if (Matrix<Bfloat16>& scratch = scratch_[std::size_t(lane)].delta; !scratch.empty())
    rounded = {scratch.view().data, z.rows, z.cols, rounded_stride(z.cols)};
  if (units_[std::size_t(number)]->is_softmax())
    kernels.softmax_delta(softmax_cost(graph_.network), target, units.begin,
                          rows_of(*outputs_[std::size_t(number)], z.rows), z, cost, rounded);
  else
    kernels.delta(unit_cost(graph_.network, descriptor), target, units.begin, z, cost, rounded);
  return {z, rounded};
}

// Whether the shape of a layer allows its product, cost and delta to be one kernel.
bool Network::may_fuse_delta(int number) const {
  const UnitLayer& layer = *units_[std::size_t(number)];
  const Kernels& kernels = context_.compute.kernels;
  return kernels.fused && (kernels.rounds_operands || kernels.turns_operands) &&
         layer.connections.size() == 1 && layer.connections[0].begins_with_bias() &&
         graph_.skips[std::size_t(number)].empty() && layer.descriptor().delta_norm == 0.0f &&
         (!layer.is_softmax() ||
          (sparse_input_[std::size_t(number)] &&
           CostKernels::coupling_from_targets(softmax_cost(graph_.network))));
}

// A block of several blocks on its way from the activations: without what it becomes.
OutputBlock Network::output_block(int number, const TargetView& target, Range units,
                                  Index examples) const {
  const UnitLayer& layer = *units_[std::size_t(number)];
  OutputBlock block;
  block.x = output_of(layer.source_layers[0], examples).dense;
  block.w = layer.connections[0].operand(units);
  block.bias = layer.bias.value.view().range(units.begin - layer.mine().begin, units.count());
  if (layer.is_softmax())
    block.rule = softmax_cost(graph_.network);
  else
    block.rule = unit_cost(graph_.network, layer.descriptor());
  block.target = target;
  block.first_unit = units.begin;
  return block;
}

// The deltas of a block, and the gradient of its biases, where product, cost and delta are one
// kernel: nothing where they are not.
std::optional<DenseOperand> Network::fused_delta(int number, const TargetView& target, Range units,
                                                 Index examples, float scale, double* cost) {
  UnitLayer& layer = *units_[std::size_t(number)];
  const Compute& compute = context_.compute;
  Scratch& scratch = scratch_[0];
  const Index width = units.count();
  const Index most = units_at_once(layer.partition(), batch_);
  OutputBlock block = output_block(number, target, units, examples);
  if (auto& runs = outputs_[std::size_t(number)]->target_runs; runs && target.is_sparse)
    block.target_runs = runs->find(compute, units);
  if (scratch.turned.empty()) {
    block.delta = {nullptr, examples, width, width};
    block.rounded_delta = {scratch.delta.view().data, examples, width, rounded_stride(most)};
  } else {
    const Index depth = round_up_to_eight(examples);
    block.delta = {scratch.z.view().data, examples, width, round_up_to_eight(most)};
    block.turned_delta = {scratch.turned.view().data, width, depth, depth};
  }
  block.cost = cost;
  if (width > layer.partition().block_width()) block.block_width = layer.partition().block_width();
  block.bias_gradient = layer.bias_gradient(units);
  block.bias_scale = scale;
  if (!compute.kernels.fused->output_delta(block)) return std::nullopt;
  DenseOperand delta(MatrixView<const float>(block.delta), block.rounded_delta);
  delta.turned = block.turned_delta;
  if (block.rounded_delta.data) delta.zero_cols = round_up_to_eight(width) - width;
  return delta;
}

// DeltaNorm needs the norm of whole rows before the first block is used: one pass for the squares
// alone.
void Network::clip_output_deltas(int number, const TargetView& target, Index examples) {
  UnitLayer& layer = *units_[std::size_t(number)];
  const Compute& compute = context_.compute;
  const Range blocks =
      layer.partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  row_squares_.fill_zero();
  double* costs = reinterpret_cast<double*>(outcome().data() + first_cost_[std::size_t(number)]);
  compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
    const Range units = layer.partition().units(blocks.begin + b);
    Matrix<float> z(examples, units.count(), compute.memory);
    pre_activation(layer, units, z.view());
    block_delta(number, target, units, z.view(), costs + b, lane);
    compute.kernels.normalization->add_row_squares(
        z.view(), row_squares_.view().range(Index(lane) * batch_, examples));
  });
  reduce_row_squares(examples);
}

// Blocks whose product, cost and delta are one kernel, several at a time. Returns how many of the
// first ones were.
Index Network::run_fused_output(int number, const TargetView& target, const WeightStep& step,
                                Index examples, double* costs) {
  if (!may_fuse_delta(number)) return 0;
  UnitLayer& layer = *units_[std::size_t(number)];
  const BlockPartition& partition = layer.partition();
  const Range blocks =
      partition.blocks_of(context_.communicator.rank(), context_.communicator.size());
  const Index most = blocks_at_once(partition, batch_);
  for (Index b = 0; b < blocks.count(); b += most) {
    const Index last = std::min(b + most, blocks.count()) - 1;
    const Range units{partition.units(blocks.begin + b).begin,
                      partition.units(blocks.begin + last).end};
    stage("output forward");
    const auto delta = fused_delta(number, target, units, examples, step.scale, costs + b);
    if (!delta) return b;
    backward_block(layer, units, *delta, step, 0, true, last + 1 == blocks.count());
  }
  return blocks.count();
}

void Network::run_output(int number, const BoundBatch& batch, const StepPosition& position) {
  UnitLayer& layer = *units_[std::size_t(number)];
  OutputState& state = *outputs_[std::size_t(number)];
  const Compute& compute = context_.compute;
  const TargetView target = target_view(number, batch);
  const WeightStep step = weight_step(position, batch.examples);
  const float limit = layer.descriptor().delta_norm;
  overlap_->later.run_all();  // of another output layer, whose deltas stood where these will
  sum_source_parts(number, batch.examples);
  stage("softmax rows");
  if (layer.is_softmax()) softmax_rows(number, &target, batch.examples, may_fuse_delta(number));
  if (limit > 0.0f) clip_output_deltas(number, target, batch.examples);

  const Range blocks =
      layer.partition().blocks_of(context_.communicator.rank(), context_.communicator.size());
  double* costs = reinterpret_cast<double*>(outcome().data() + first_cost_[std::size_t(number)]);
  const Index fused = run_fused_output(number, target, step, batch.examples, costs);
  compute.executor.for_each(blocks.count() - fused, [&](Index i, int lane) {
    const Index b = fused + i;
    const Range units = layer.partition().units(blocks.begin + b);
    const MatrixView<float> z = block_z(layer, units, batch.examples, lane);
    if (!layer.is_softmax() || state.kept_z.empty()) pre_activation(layer, units, z);
    stage("output delta");
    DenseOperand delta = block_delta(number, target, units, z, costs + b, lane);
    if (limit > 0.0f) {
      compute.kernels.normalization->clip_rows(limit, row_squares_.view().range(0, batch.examples),
                                               z);
      delta = z;
    }
    for (int skip : graph_.skips[std::size_t(number)])
      if (units_[std::size_t(skip)])
        units_[std::size_t(skip)]->delta_sum.add(compute, units.begin, z);
    keep_delta_by_source(layer, units, z);
    backward_block(layer, units, delta, step, lane, true, b + 1 == blocks.count());
    stage("bias update");
    layer.sum_bias_gradient(compute, step, units, delta);
  });
  send_delta_by_source(layer, batch.examples, step);
  finish_sparse(layer, step);
  add_shared_gradients(layer);
}

}  // namespace norn
