// SPDX-License-Identifier: Apache-2.0
// Deltas of hidden layers.
#include "src/step/ops/hidden_delta.h"

#include "src/step/ops/source_edges.h"
#include "src/step/ops/unit_edges.h"

namespace norn::step {
namespace {

void reduce_delta(State& state, int layer) {
  DeltaSum& sum = state.units[layer]->delta_sum;
  const StepFacts& facts = state.facts;
  if (facts.by_example(layer))
    return reduce_accumulator_rows(state, sum, facts.example_shares(state.examples()));
  if (!facts.exchanges_partial_sums(layer))
    return reduce_accumulators(state, sum, facts.shares(layer));
  DeviceSum& kept = sum.on_device();
  kept.receive(state.collectives().exchange_columns(kept.partial_sums(), kept.examples(),
                                                    facts.partial_sums_by_rank(layer),
                                                    facts.shares(layer)));
}

// The Jacobian of SoftMax depends on all units of a row: every rank forms the whole rows.
void softmax_backward(State& state, UnitLayer& unit) {
  const Index examples = state.examples();
  Matrix<float> rows(examples, unit.partition().width(), state.compute().memory);
  const MatrixView<float> own = rows.view().columns(unit.mine().begin, unit.mine().count());
  PointwiseKernels& pointwise = *state.kernels().pointwise;
  pointwise.copy(unit.delta(examples), own);
  if (!state.is_alone()) state.stage("gather SoftMax deltas");
  state.collectives().all_gather_columns(rows.view(), state.facts.shares(unit.settings().number));
  state.stage("hidden delta");
  pointwise.softmax_rows_backward(unit.whole(examples), rows.view());
  pointwise.copy(own, unit.delta(examples));
}

void clip_deltas(State& state, UnitLayer& unit) {
  NormalizationKernels& kernels = *state.kernels().normalization;
  const Index examples = state.examples();
  const VectorView<FixedSum> squares = state.row_squares.view().range(0, examples);
  const Range blocks = state.facts.own_blocks(unit.settings().number);
  state.row_squares.fill_zero();
  for (Index b = 0; b < blocks.count(); ++b) {
    const Range units = unit.partition().units(blocks.begin + b);
    kernels.add_row_squares(
        unit.delta(examples).columns(units.begin - unit.mine().begin, units.count()), squares);
  }
  reduce_row_squares(state);
  state.stage("hidden delta");
  if (unit.mine().count() > 0)
    kernels.clip_rows(unit.descriptor().delta_norm, squares, unit.delta(examples));
}

}  // namespace

void reduce_row_squares(State& state) {
  FixedSum* sums = state.row_squares.data();
  const Index examples = state.examples();
  // Several lanes, like several ranks, are the host's.
  for (std::size_t lane = 1; lane < state.workspace.size(); ++lane)
    for (Index b = 0; b < examples; ++b) sums[b].add(sums[Index(lane) * state.facts.batch() + b]);
  // Their accumulators may be added as they are.
  if (!state.is_alone()) state.stage("sum norms of deltas");
  state.collectives().all_reduce_sum(
      {reinterpret_cast<std::int64_t*>(sums), FixedSum::kWords * std::size_t(examples)});
}

void BeginReduce::run(State& state) const {
  state.stage("reduce deltas");
  state.collectives().overlap([&] { reduce_delta(state, layer); });
}

void BeginReduce::traffic(const StepFacts& facts, TrafficList& list) const {
  if (facts.exchanges_partial_sums(layer))
    list.partial_sums("reduce deltas", layer);
  else
    list.accumulators("reduce deltas", layer);
  list.mark_overlapping();
}

void FinishReduce::run(State& state) const {
  state.stage("reduce deltas");
  state.collectives().wait_for_overlapped();
}

void HiddenDelta::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const Index examples = state.examples();
  state.stage("hidden delta");
  unit.take_delta(compute, examples, state.now.position, state.is_alone());
  if (unit.is_softmax()) {
    const SparsenessPenalty& sparseness = unit.settings().sparseness;
    if (sparseness.beta > 0.0f)
      compute.kernels.normalization->sparseness_penalty(sparseness.p, sparseness.beta,
                                                        unit.own(examples), unit.delta(examples));
    softmax_backward(state, unit);
  }
  if (unit.mine().count() > 0)
    unit.backward(compute, examples, state.now.position, state.unit_step());
  if (unit.descriptor().delta_norm > 0.0f) clip_deltas(state, unit);
  const DenseOperand delta = unit.delta_operand(compute, examples);
  state.deltas[layer] = delta;
  if (unit.mine().count() > 0) backward_by_unit(state, layer, unit.mine(), delta.values, 0);
}

void HiddenDelta::work(const StepFacts& facts, WorkList& list) const {
  const LayerDescriptor& descriptor = facts.layer(layer);
  double each = kWord + 3.0 * kFloat;
  if (facts.device().precision.casts_operands()) each += kBf16;
  if (descriptor.batch_normalization) each += 6.0 * kFloat;
  if (descriptor.delta_norm > 0.0f) each += 3.0 * kFloat;
  list.pass("hidden delta", list.rows_of(layer) * each, facts.ranks() > 1 ? 2.0 : 1.0);
  list.backward_by_unit("hidden delta", layer);
}

void HiddenDelta::traffic(const StepFacts& facts, TrafficList& list) const {
  const double rows = double(facts.batch());
  if (facts.is_softmax(layer))
    list.gather("gather SoftMax deltas", layer, rows * double(facts.layer(layer).units()) * kFloat);
  if (facts.layer(layer).delta_norm > 0.0f)
    list.all_reduce("sum norms of deltas", rows * double(sizeof(FixedSum)));
}

void HiddenDelta::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(unit.activations, unit.before_dropout, unit.pre_activations, unit.normalised,
             unit.inverse_deviation);
  uses.adds_to_delta(layer);
  uses.writes(unit.deltas, unit.bf16_deltas);
  if (uses.facts.layer(layer).delta_norm > 0.0f) uses.writes(uses.tensors.row_squares);
  if (uses.facts.layer(layer).batch_normalization) {
    uses.writes(unit.gradient, unit.gradient2);
    uses.updates_all(unit.norm_scale);
    uses.updates_all(unit.norm_bias);
  }
  list_backward_by_unit(layer, uses);
}

}  // namespace norn::step
