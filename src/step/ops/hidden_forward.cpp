// SPDX-License-Identifier: Apache-2.0
// From the sources' activations to a hidden layer's.
#include "src/step/ops/hidden_forward.h"

#include "src/step/ops/source_edges.h"

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
  for (int skip : state.facts.skips(layer))
    compute.kernels.pointwise->add(
        state.output_of(skip).dense.values.columns(unit.mine().begin, unit.mine().count()),
        unit.own(examples));
  state.stage("activation");
  unit.finish_forward(compute, examples, state.now.pass, state.now.position);
}

void HiddenForward::work(const StepFacts& facts, WorkList& list) const {
  list.pre_activations("hidden forward", layer);
  const LayerDescriptor& descriptor = facts.layer(layer);
  const DeviceTraits& device = facts.device();
  double each = 2.0 * kFloat;  // of an own unit: read and written
  if (keeps_outputs_before_dropout(descriptor, sparseness_of(facts.graph().network, descriptor)))
    each += kFloat;
  if (keeps_pre_activations(descriptor)) each += kFloat;
  if (descriptor.batch_normalization) each += 4.0 * kFloat;
  double whole = 0.0;  // of any unit: what products read
  if (device.rounds_operands) whole += kFloat + kRounded;
  if (device.turns_operands) whole += 2.0 * kFloat;
  if (facts.is_softmax(layer)) whole += 2.0 * kFloat;
  const double skips = double(facts.skips(layer).size());
  list.pass("activation",
            list.rows_of(layer) * (each + 3.0 * kFloat * skips) +
                list.batch() * double(descriptor.units()) * whole,
            whole > 0.0 ? 2.0 : 1.0);
}

void GatherActivations::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const Index examples = state.examples();
  const std::vector<Range>& shares = state.facts.shares(layer);
  if (state.facts.joins(layer)) {
    if (!state.is_alone()) state.stage("gather activations");
    if (unit.gives_rounded(state.now.pass)) {
      state.collectives().all_gather_columns(unit.rounded(examples), shares);
      return;
    }
    state.collectives().all_gather_columns(unit.whole(examples), shares);
  }
  if (unit.is_softmax()) unit.softmax(compute, examples);
  unit.round_output(compute, examples);
  if (state.now.pass == Pass::training) unit.turn_output(compute, examples);
}

void GatherActivations::traffic(const StepFacts& facts, TrafficList& list) const {
  if (!facts.joins(layer)) return;
  const bool rounded =
      facts.device().rounds_operands && facts.training() && !facts.is_softmax(layer);
  list.gather_columns("gather activations", layer, rounded ? kRounded : kFloat);
}

void GatherRest::run(State& state) const {
  state.collectives().all_gather_columns(state.units[layer]->whole(state.examples()),
                                         state.facts.shares(layer));
}

}  // namespace norn::step
