// SPDX-License-Identifier: Apache-2.0
// A network's memory and layers, and the batch of a step.
#include "src/step/state.h"

#include "norn/base/error.h"
#include "src/step/layers/factored.h"

namespace norn::step {

UpdateSchedule schedule_of(const NetworkDescriptor& network, float rate, std::int64_t warm_up) {
  const TrainingDescriptor& training = network.training;
  UpdateSchedule schedule{.rate = rate,
                          .decay = network.decay,
                          .l2 = training.lambda,
                          .l1 = training.lambda1,
                          .clip = training.clip_gradient};
  schedule.warm_up_in(warm_up);
  return schedule;
}

State::State(const StepFacts& the_facts, const Context& the_context)
    : StepTensors(the_facts),
      facts(the_facts),
      context(the_context),
      schedule(schedule_of(network(), network().training.rate, 0)) {
  inputs.resize(facts.layers());
  batches.resize(facts.layers());
  bound.resize(facts.layers());
  deltas.resize(facts.layers());
  loaded_.resize(facts.layers());
  Memory& memory = compute().memory;
  for_each(facts, [&](const std::string&, auto& array) { array.allocate(memory); });
  begin_arrays();
  for (int layer : facts.order()) {
    const LayerDescriptor& descriptor = facts.layer(layer);
    if (!facts.is_hidden(layer)) batches[layer] = std::make_unique<DeviceBatch>();
    if (!facts.is_input(layer)) {
      connect(layer);
      continue;
    }
    const float denoising = descriptor.sparse ? network().denoising : 0.0f;
    inputs[layer] = std::make_unique<InputLayer>(
        descriptor, layer, facts.sparse_input(layer),
        facts.by_example(layer) ? facts.example_capacity() : facts.batch(), denoising,
        room<InputRoom>(layer).feature_weights);
  }
  if (!facts.training() || is_alone()) return;
  for (auto it = facts.order().rbegin(); it != facts.order().rend(); ++it) {
    if (!facts.sums_delta(*it)) continue;
    units[*it]->delta_sum.keep_maximum_at(maxima.data() + summed.size());
    summed.push_back(*it);
  }
}

// Those that must not begin with whatever stood in their memory.
void State::begin_arrays() {
  Memory& memory = compute().memory;
  for (int layer : facts.order()) {
    if (units[layer]) units[layer]->initialise(memory);
    if (source_sums[layer]) source_sums[layer]->parts.initialise(memory);
    for (std::size_t i = 0; i < unit_edges[layer].size(); ++i) {
      const UnitEdge edge{facts.edge(facts.unit_edges(layer)[i]), int(i)};
      std::visit(
          [&](auto& room) {
            if constexpr (requires { room.fill(facts, edge); }) room.fill(facts, edge);
          },
          unit_edges[layer][i]);
    }
  }
  for (auto& gradient : shared)
    if (gradient) {
      gradient->part.fill_zero();
      gradient->sum.fill_zero();
    }
  for (auto& outcome : outcomes) outcome.fill_zero();
  prediction_flags.fill_zero();
  maxima.fill_zero();
}

void State::connect(int layer) {
  for (int e : facts.matrices(layer)) {
    const Edge& edge = facts.edge(e);
    Weights* of_edge = weights[facts.owner(e)].get();
    require(of_edge, "Network: a layer without weights; make_graph() refuses it");
    units[layer]->connections.emplace_back(*of_edge, edge.shared_with >= 0 && edge.transposed,
                                           facts.is_sparse_source(e));
    units[layer]->source_layers.push_back(edge.source);
  }
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
  for (int layer : facts.order())
    if (facts.is_factored(layer)) prepare_factors(*this, layer);
  kernels().queue->prepare([&] {
    for (int layer = 0; layer < facts.layers(); ++layer)
      if (loaded_[layer]) bound[layer] = batches[layer]->view(compute());
    for (int layer = 0; layer < facts.layers(); ++layer) {
      auto* output = std::get_if<OutputRoom>(&rooms[layer]);
      if (now.pass == Pass::training && loaded_[layer] && output && output->target_runs &&
          bound[layer].is_sparse)
        output->target_runs->begin(compute(), bound[layer].sparse);
      if (loaded_[layer] && facts.is_factored(layer)) list_targets(*this, layer);
    }
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
