// SPDX-License-Identifier: Apache-2.0
// A network's memory and layers, and the batch of a step.
#include "src/step/state.h"

#include "norn/base/error.h"

namespace norn::step {
namespace {

UpdateSchedule make_schedule(const NetworkDescriptor& network) {
  UpdateSchedule schedule;
  const TrainingDescriptor& training = network.training;
  schedule.rate = training.rate;
  schedule.decay = network.decay;
  schedule.l2 = training.lambda;
  schedule.l1 = training.lambda1;
  schedule.clip = training.clip_gradient;
  return schedule;
}

}  // namespace

State::State(const StepFacts& the_facts, const Context& the_context)
    : facts(the_facts),
      context(the_context),
      tensors(the_facts),
      schedule(make_schedule(the_facts.graph().network)) {
  const int layers = facts.layers();
  inputs.resize(layers);
  units.resize(layers);
  outputs.resize(layers);
  source_sums.resize(layers);
  batches.resize(layers);
  bound.resize(layers);
  weight_squares.resize(layers);
  deltas.resize(layers);
  loaded_.resize(layers);
  weights.resize(facts.edges());
  shared.resize(facts.edges());
  for (int layer : facts.order()) build_layer(layer);
  build_weights();
  if (facts.training()) build_shared();
  build_lanes();
  Memory& memory = compute().memory;
  for (Buffer<std::int64_t>& words : outcomes) {
    words = make_buffer<std::int64_t>(tensors.outcome, memory);
    words.fill_zero();
  }
  prediction_flags = make_buffer<std::int64_t>(tensors.prediction_flags, memory);
  prediction_flags.fill_zero();
  if (!facts.training() || is_alone()) return;
  maxima = make_buffer<float>(tensors.maxima, memory);
  maxima.fill_zero();
  for (auto it = facts.order().rbegin(); it != facts.order().rend(); ++it) {
    if (!facts.wants_delta(*it)) continue;
    units[*it]->delta_sum.keep_maximum_at(maxima.data() + summed.size());
    summed.push_back(*it);
  }
}

void State::build_layer(int layer) {
  const LayerDescriptor& descriptor = facts.layer(layer);
  Memory& memory = compute().memory;
  if (!facts.is_hidden(layer)) batches[layer] = std::make_unique<DeviceBatch>();
  if (facts.is_input(layer)) {
    const float denoising = descriptor.sparse ? network().denoising : 0.0f;
    inputs[layer] = std::make_unique<InputLayer>(descriptor, layer, facts.sparse_input(layer),
                                                 denoising, tensors.feature_weights[layer], memory);
    return;
  }
  units[layer] = std::make_unique<UnitLayer>(facts.layer_settings(layer),
                                             network().training.optimizer, compute());
  weight_squares[layer] = make_buffer<double>(tensors.weight_squares[layer], memory);
  if (facts.is_output(layer)) build_output(layer);
  if (!facts.sums_over_sources(layer)) return;
  auto sum = std::make_unique<SourceSum>();
  sum->parts = DeltaSum(facts.source_sum(layer), memory);
  const SourceSumTensors& arrays = tensors.source_sums[layer];
  sum->z = make_matrix<float>(arrays.z, memory);
  sum->delta = make_matrix<float>(arrays.delta, memory);
  sum->rounded_delta = make_matrix<Bfloat16>(arrays.rounded_delta, memory);
  source_sums[layer] = std::move(sum);
}

void State::build_output(int layer) {
  Memory& memory = compute().memory;
  const OutputTensors& arrays = tensors.outputs[layer];
  auto state = std::make_unique<OutputState>();
  state->kept_z = make_buffer<float>(arrays.kept_z, memory);
  state->block_maximum = make_matrix<float>(arrays.block_maximum, memory);
  state->block_sum = make_matrix<float>(arrays.block_sum, memory);
  state->rank_maximum = make_matrix<float>(arrays.rank_maximum, memory);
  state->maximum = make_buffer<float>(arrays.maximum, memory);
  state->total = make_buffer<std::int64_t>(arrays.total, memory);
  state->coupling = make_buffer<std::int64_t>(arrays.coupling, memory);
  if (facts.may_fuse_delta(layer))
    state->target_runs.emplace(facts.mine(layer), facts.partition(layer).block_width(),
                               facts.batch());
  outputs[layer] = std::move(state);
}

void State::build_weights() {
  const UpdateRule& rule = network().training.optimizer;
  for (int e = 0; e < facts.edges(); ++e) {
    if (facts.owner(e) != e || !facts.edge_takes_part(e)) continue;
    weights[e] =
        std::make_unique<Weights>(facts.weight_shape(e), rule, facts.training(), compute());
    weights[e]->users = facts.users(e);
  }
  for (int layer : facts.order()) {
    for (int e : facts.sources(layer)) {
      const Edge& edge = facts.edge(e);
      Weights* of_edge = weights[facts.owner(e)].get();
      require(of_edge, "Network: a layer without weights; make_graph() refuses it");
      units[layer]->connections.emplace_back(*of_edge, edge.shared_with >= 0 && edge.transposed,
                                             facts.is_sparse_source(e));
      units[layer]->source_layers.push_back(edge.source);
    }
  }
}

void State::build_shared() {
  Memory& memory = compute().memory;
  for (int e = 0; e < facts.edges(); ++e) {
    if (!facts.edge_takes_part(e) || !facts.is_shared(e)) continue;
    shared[e] = std::make_unique<SharedGradient>();
    shared[e]->part = make_matrix<float>(tensors.shared[e].part, memory);
    shared[e]->part.fill_zero();
    shared[e]->sum = make_matrix<float>(tensors.shared[e].sum, memory);
    shared[e]->sum.fill_zero();
  }
}

void State::build_lanes() {
  Memory& memory = compute().memory;
  const LaneTensors& lane = tensors.lane;
  scratch.resize(std::size_t(facts.settings().lanes));
  for (Scratch& each : scratch) {
    each.z = make_matrix<float>(lane.z, memory);
    each.dx = make_matrix<float>(lane.dx, memory);
    each.gradient = make_buffer<float>(lane.gradient, memory);
    each.delta = make_matrix<Bfloat16>(lane.rounded_delta, memory);
    each.turned = make_matrix<float>(lane.turned_delta, memory);
  }
  row_squares = make_buffer<FixedSum>(tensors.row_squares, memory);
}

void State::load(bool with_targets) {
  const BoundBatch& batch = *now.batch;
  compute().predicts = now.pass == Pass::prediction;
  for (char& loaded : loaded_) loaded = 0;
  for (int layer : facts.order()) {
    require(!inputs[layer] || inputs[layer]->is_ready(),
            "Network: weights of features were not set; call weigh_features, or load a model");
    const HostBatch* of_layer = batch.of_layer[std::size_t(layer)];
    if (!batches[layer] || !of_layer || (!inputs[layer] && !with_targets)) continue;
    batches[layer]->load(context, *of_layer);
    loaded_[layer] = 1;
  }
  kernels().queue->prepare([&] {
    for (int layer = 0; layer < facts.layers(); ++layer)
      if (loaded_[layer]) bound[layer] = batches[layer]->view(compute());
    for (int layer = 0; layer < facts.layers(); ++layer)
      if (now.pass == Pass::training && loaded_[layer] && outputs[layer] &&
          outputs[layer]->target_runs && bound[layer].is_sparse)
        outputs[layer]->target_runs->begin(compute(), bound[layer].sparse);
    for (int layer : facts.order()) {
      if (!inputs[layer]) continue;
      require(batch.of_layer[std::size_t(layer)] != nullptr,
              "Network: an input layer has no data set");
      inputs[layer]->prepare(compute(), bound[layer], facts.batch(), now.pass, facts.training(),
                             now.position);
    }
  });
}

}  // namespace norn::step
