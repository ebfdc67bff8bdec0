// SPDX-License-Identifier: Apache-2.0
// From the sources' activations to a hidden layer's.
#include "src/step/ops/hidden_forward.h"

#include "src/step/ops/source_edges.h"
#include "src/step/ops/unit_edges.h"

#include <algorithm>

namespace norn::step {

void HiddenForward::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  if (unit.mine().count() == 0) return;
  Compute& compute = state.compute();
  const Index examples = state.examples();
  // The product that the bias goes into comes first of all.
  const auto first_sparse =
      std::find_if(unit.connections.begin(), unit.connections.end(),
                   [](const Connection& connection) { return connection.sparse_source(); });
  const bool has_sparse = first_sparse != unit.connections.end();
  const Connection* with_bias = nullptr;
  if (has_sparse)
    with_bias = &*first_sparse;
  else if (!unit.connections.empty() && unit.connections[0].begins_with_bias())
    with_bias = &unit.connections[0];
  const auto connection_forward = [&](bool sparse) {
    for (std::size_t c = 0; c < unit.connections.size(); ++c) {
      const Connection& connection = unit.connections[c];
      if (connection.sparse_source() != sparse || connection.by_source()) continue;
      const LayerOutput x = state.output_of(unit.source_layers[c]);
      if (&connection == with_bias)
        unit.begin_with_product(compute, connection, x, examples);
      else
        connection.forward(compute, x, unit.mine(), unit.block(), unit.own(examples));
    }
  };
  state.stage(has_sparse ? "sparse forward" : "hidden forward");
  if (!with_bias) unit.begin_forward(compute, examples);
  if (has_sparse) connection_forward(true);
  if (unit.connections.size() > 1 || !has_sparse) state.stage("hidden forward");
  connection_forward(false);
  add_source_sum(state, layer, unit.mine(), unit.own(examples));
  add_by_unit(state, layer, unit.mine(), unit.own(examples));
  state.stage("activation");
  unit.finish_forward(compute, examples, state.now.pass, state.now.position);
}

void HiddenForward::work(const StepFacts& facts, WorkList& list) const {
  list.pre_activations("hidden forward", layer);
  const LayerDescriptor& descriptor = facts.layer(layer);
  double each = 2.0 * kFloat;  // of an own unit: read and written
  if (keeps_outputs_before_dropout(descriptor, sparseness_of(facts.graph().network, descriptor)))
    each += kFloat;
  if (keeps_pre_activations(descriptor)) each += kFloat;
  if (descriptor.batch_normalization) each += 4.0 * kFloat;
  list.pass("activation", list.rows_of(layer) * each);
}

void HiddenForward::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads_sources(layer);
  uses.updates_all(unit.norm_scale);
  uses.updates_all(unit.norm_bias);
  uses.updates(unit.running_mean, unit.running_variance);
  uses.writes(unit.activations, unit.bf16_activations, unit.transposed_activations,
              unit.before_dropout, unit.pre_activations, unit.normalised, unit.inverse_deviation);
}

void GatherActivations::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  const Index examples = state.examples();
  const std::vector<Range>& shares = state.facts.shares(layer);
  state.stage("gather activations");
  if (unit.gives_bf16(state.now.pass))
    state.collectives().all_gather_columns(unit.bf16(examples), shares);
  else
    state.collectives().all_gather_columns(unit.whole(examples), shares);
}

void GatherActivations::traffic(const StepFacts& facts, TrafficList& list) const {
  const bool bf16 = facts.device().precision.casts_operands() && facts.training() &&
                    !facts.is_softmax(layer) && !facts.gives_floats(layer);
  list.gather_columns("gather activations", layer, bf16 ? kBf16 : kFloat);
}

void GatherActivations::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.updates(unit.activations, unit.bf16_activations);
}

void HiddenSoftMax::run(State& state) const {
  state.stage("activation");
  state.units[layer]->softmax(state.compute(), state.examples());
}

void HiddenSoftMax::work(const StepFacts& facts, WorkList& list) const {
  list.pass("activation", list.batch() * double(facts.layer(layer).units()) * 2.0 * kFloat);
}

void CopyActivations::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  if (unit.gives_bf16(state.now.pass)) return;  // they were gathered as bf16
  state.stage("activation");
  unit.round_output(state.compute(), state.examples());
  if (state.now.pass == Pass::training) unit.transpose_output(state.compute(), state.examples());
}

void CopyActivations::work(const StepFacts& facts, WorkList& list) const {
  double each = 0.0;
  if (facts.device().precision.casts_operands()) each += kFloat + kBf16;
  if (facts.device().precision.transposes_operands()) each += 2.0 * kFloat;
  list.pass("activation", list.batch() * double(facts.layer(layer).units()) * each);
}

void CopyActivations::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(uses.facts.by_example(layer) ? unit.gathered : unit.activations);
  uses.writes(unit.bf16_activations, unit.transposed_activations);
}

void GatherRest::run(State& state) const {
  state.collectives().all_gather_columns(state.units[layer]->whole(state.examples()),
                                         state.facts.shares(layer));
}

}  // namespace norn::step
