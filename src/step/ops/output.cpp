// SPDX-License-Identifier: Apache-2.0
// Blocks of output layers where each family of kernels has its turn.
#include "src/step/ops/output.h"

#include "norn/base/error.h"
#include "src/step/block_group.h"
#include "src/step/costs.h"
#include "src/step/ops/hidden_delta.h"
#include "src/step/ops/source_edges.h"
#include "src/step/ops/unit_edges.h"

#include <utility>

namespace norn::step {
void pre_activation(State& state, int layer, Range units, MatrixView<float> z, const char* stage) {
  Compute& compute = state.compute();
  const UnitLayer& unit = *state.units[layer];
  const Index first = units.begin - unit.mine().begin;
  const VectorView<const float> bias = unit.bias.value.view().range(first, units.count());
  const bool at_once = !unit.connections.empty() && unit.connections[0].begins_with_bias();
  state.stage(stage);
  if (at_once)
    unit.connections[0].forward_from_bias(compute, state.output_of(unit.source_layers[0], z.rows),
                                          units, 0, bias, z);
  else
    compute.kernels.pointwise->set_rows(bias, z);
  for (std::size_t c = at_once ? 1 : 0; c < unit.connections.size(); ++c) {
    const Connection& connection = unit.connections[c];
    if (connection.by_source()) continue;
    state.stage(connection.sparse_source() ? "sparse forward" : stage);
    connection.forward(compute, state.output_of(unit.source_layers[c], z.rows), units, 0, z);
  }
  add_source_sum(state, layer, units, z);
  add_by_unit(state, layer, units, z);
}

MatrixView<float> block_z(State& state, int layer, Range units, int lane) {
  OutputRoom& output = state.room<OutputRoom>(layer);
  const Index examples = state.examples();
  if (output.kept_z.empty())
    return {state.workspace[std::size_t(lane)].z.view().data, examples, units.count(),
            round_up_to_eight(units.count())};
  const Index first = units.begin - state.facts.mine(layer).begin;
  if (state.facts.training())
    return {output.kept_z.data() + first * state.facts.batch(), examples, units.count(),
            units.count()};
  const Index width = state.facts.partition(layer).block_width();
  return {output.kept_z.data() + first / width * round_up_to_eight(width) * state.facts.batch(),
          examples, units.count(), round_up_to_eight(units.count())};
}

DenseOperand block_delta(State& state, int layer, const TargetView& target, Range units,
                         MatrixView<float> z, double* cost, int lane) {
  CostKernels& kernels = *state.kernels().cost;
  MatrixView<Bfloat16> bf16;
  if (Matrix<Bfloat16>& workspace = state.workspace[std::size_t(lane)].delta; !workspace.empty())
    bf16 = {workspace.view().data, z.rows, z.cols, bf16_stride(z.cols)};
  if (state.facts.is_softmax(layer))
    kernels.softmax_delta(softmax_cost(state.network()), target, units.begin,
                          state.room<OutputRoom>(layer).rows(z.rows), z, cost, bf16);
  else
    kernels.delta(unit_cost(state.network(), state.facts.layer(layer)), target, units.begin, z,
                  cost, bf16);
  return {z, bf16};
}

TargetView target_view(State& state, int layer) {
  const BoundBatch& batch = *state.now.batch;
  require(batch.of_layer[std::size_t(layer)] != nullptr,
          "Network: an output layer has no data set");
  const BatchView& data = state.bound[layer];
  TargetView target;
  target.is_sparse = data.is_sparse;
  target.sparse = data.sparse;
  target.sparse.cols = state.facts.layer(layer).units();  // may exceed the data's
  target.dense = data.dense;
  target.ignore_absent = batch.ignore_absent[std::size_t(layer)];
  target.weight = data.weight;
  if (state.facts.layer(layer).entry_weights.is_on())
    target.entry_weight = std::exchange(target.sparse.value, nullptr);
  return target;
}

OutputBlock output_block(State& state, int layer, const TargetView& target, Range units) {
  const UnitLayer& unit = *state.units[layer];
  OutputBlock block;
  block.x = state.output_of(unit.source_layers[0]).dense;
  block.w = unit.connections[0].operand(units);
  block.bias = unit.bias.value.view().range(units.begin - unit.mine().begin, units.count());
  if (unit.is_softmax())
    block.rule = softmax_cost(state.network());
  else
    block.rule = unit_cost(state.network(), unit.descriptor());
  block.target = target;
  block.first_unit = units.begin;
  return block;
}

std::int64_t* out_of_range(State& state, int layer) {
  return &state.outcome().sum(layer)->out_of_range;
}

void activate_block(State& state, int layer, MatrixView<float> z) {
  const Kernels& kernels = state.kernels();
  if (state.facts.is_softmax(layer))
    kernels.cost->softmax_values(state.room<OutputRoom>(layer).rows(z.rows), z);
  else
    kernels.pointwise->activate(std::get<Activation>(state.facts.layer(layer).activation), z);
}

void DeltaNorms::run(State& state) const {
  const TargetView target = target_view(state, layer);
  state.stage("norms of deltas");
  state.row_squares.fill_zero();
  double* costs = state.outcome().costs(layer).data();
  for_own_blocks(state, layer, [&](Index b, Range units, int lane) {
    Matrix<float> z(state.examples(), units.count(), state.compute().memory);
    pre_activation(state, layer, units, z.view(), "norms of deltas");
    state.stage("norms of deltas");
    block_delta(state, layer, target, units, z.view(), costs + b, lane);
    state.kernels().normalization->add_row_squares(
        z.view(),
        state.row_squares.view().range(Index(lane) * state.facts.batch(), state.examples()));
  });
  reduce_row_squares(state);
}

void DeltaNorms::work(const StepFacts&, WorkList& list) const {
  list.pre_activations("norms of deltas", layer);
  list.pass("norms of deltas", 3.0 * list.rows_of(layer) * kFloat, 2.0 * list.calls_for(layer));
}

void DeltaNorms::traffic(const StepFacts& facts, TrafficList& list) const {
  list.all_reduce("sum norms of deltas", double(facts.batch()) * double(sizeof(FixedSum)));
}

void OutputBlocks::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  const bool keeps_z = !state.room<OutputRoom>(layer).kept_z.empty();
  const TargetView target = target_view(state, layer);
  const WeightStep step = state.unit_step();
  const float limit = unit.descriptor().delta_norm;
  const Range blocks = state.facts.own_blocks(layer);
  const Index fused = fuses ? run_fused(state, target) : 0;
  double* costs = state.outcome().costs(layer).data();
  state.compute().executor.for_each(blocks.count() - fused, [&](Index i, int lane) {
    const Index b = fused + i;
    const Range units = unit.partition().units(blocks.begin + b);
    const MatrixView<float> z = block_z(state, layer, units, lane);
    if (!keeps_z) pre_activation(state, layer, units, z, "output forward");
    state.stage("output delta");
    DenseOperand delta = block_delta(state, layer, target, units, z, costs + b, lane);
    if (limit > 0.0f) {
      state.kernels().normalization->clip_rows(
          limit, state.row_squares.view().range(0, state.examples()), z);
      delta = z;
    }
    backward_by_unit(state, layer, units, z, lane);
    keep_delta_by_source(state, layer, units, z);
    run_backward(state, layer, edges, units, delta, lane, b + 1 == blocks.count());
    state.stage("bias update");
    unit.sum_bias_gradient(state.compute(), step, units, delta);
  });
}

void OutputBlocks::work(const StepFacts& facts, WorkList& list) const {
  const double outputs = list.rows_of(layer);
  if (fuses) {
    list.loss_product("output forward", layer, list.output_calls(layer));
  } else {
    if (!facts.keeps_z(layer)) list.pre_activations("output forward", layer);
    const double bf16 = facts.device().precision.casts_operands() ? kBf16 : 0.0;
    list.add({.stage = "output delta",
              .bytes = outputs * (2.0 * kFloat + bf16),
              .evaluated = outputs,
              .calls = list.calls_for(layer)});
    list.backward_by_unit("output delta", layer);
  }
  count_backward(layer, edges, facts, list);
}

void CostBlocks::run(State& state) const {
  const bool keeps_z = !state.room<OutputRoom>(layer).kept_z.empty();
  const TargetView target = target_view(state, layer);
  double* costs = state.outcome().costs(layer).data();
  for_own_blocks(state, layer, [&](Index b, Range units, int lane) {
    const MatrixView<float> z = block_z(state, layer, units, lane);
    if (!keeps_z) pre_activation(state, layer, units, z, "output forward");
    if (visits) {  // before the deltas take the place of the pre-activations
      const MatrixView<float> y{state.visited[std::size_t(lane)].data(), z.rows, z.cols, z.cols};
      state.kernels().pointwise->copy(z, y);
      activate_block(state, layer, y);
      (*state.now.visit)(units, y, lane);
    }
    block_delta(state, layer, target, units, z, costs + b, lane);
  });
}

void OutputValues::run(State& state) const {
  const bool keeps_z = !state.room<OutputRoom>(layer).kept_z.empty();
  for_own_blocks(state, layer, [&](Index, Range units, int lane) {
    const MatrixView<float> z = block_z(state, layer, units, lane);
    if (!keeps_z) pre_activation(state, layer, units, z, "output forward");
    activate_block(state, layer, z);
    (*state.now.visit)(units, z, lane);
  });
}

namespace {

void list_blocks(int layer, TensorUses& uses) {
  OutputRoom& output = uses.tensors.room<OutputRoom>(layer);
  uses.reads_sources(layer);
  uses.reads(output.maximum, output.total, output.coupling);
  uses.updates(output.kept_z);
  uses.updates_flags();
  for (Workspace& lane : uses.tensors.workspace) uses.writes(lane.z, lane.delta);
}

}  // namespace

void DeltaNorms::tensors(TensorUses& uses) const {
  list_blocks(layer, uses);
  uses.writes(uses.tensors.row_squares);
}

void OutputBlocks::tensors(TensorUses& uses) const {
  list_blocks(layer, uses);
  uses.writes(uses.tensors.room<OutputRoom>(layer).target_places,
              uses.tensors.units[layer]->gradient);
  if (uses.facts.layer(layer).delta_norm > 0.0f) uses.reads(uses.tensors.row_squares);
  if (const auto& sum = uses.tensors.source_sums[layer]) uses.writes(sum->delta);
  list_backward_by_unit(layer, uses);
  list_backward(edges, uses);
}

void CostBlocks::tensors(TensorUses& uses) const {
  list_blocks(layer, uses);
}

void OutputValues::tensors(TensorUses& uses) const {
  list_blocks(layer, uses);
}

}  // namespace norn::step
