// SPDX-License-Identifier: Apache-2.0
// Updates, begun and finished.
#include "norn/base/error.h"
#include "src/engine/network/network_parts.h"
#include "src/step/layers/factored.h"

#include <fmt/format.h>

namespace norn {

FixedSum Network::train_step(const BoundBatch& batch, const StepPosition& position) {
  require(parts_->in_flight.empty(),
          "Network::train_step: steps begun before must be finished first");
  begin_step(batch, position);
  return finish_step();
}

void Network::begin_step(const BoundBatch& batch, const StepPosition& position) {
  Parts& parts = *parts_;
  step::State& state = parts.state;
  require(parts.facts.training(), "Network::train_step: the network was built for prediction");
  parts.require_planned(batch, "train_step");
  require(parts.in_flight.size() < parts.places.size(),
          "Network::begin_step: too many steps are in flight");
  WorkQueue& queue = *parts.compute().kernels.queue;
  if (parts.in_flight.empty()) step::forget_progress(state);
  state.now = {&batch, batch.examples, Pass::training, position, nullptr};
  state.load(true);
  state.turn = 1 - state.turn;
  if (parts.measures_step()) {
    queue.profile(true);
    queue.run([&] { parts.times->run(parts.training, state); });
    queue.profile(false);
  } else {
    queue.run([&] { step::run(parts.training, state); });
  }
  Parts::InFlight step{position, parts.places[parts.next_place++ % parts.places.size()]};
  const Buffer<std::byte>& outcome = state.outcome_bytes();
  queue.download(step.outcome, outcome.data(), std::size_t(outcome.size()));
  step.done = queue.mark();
  parts.in_flight.push_back(step);
}

// The first step does what is done once. Of a GPU's steps few are made without a graph.
bool Network::Parts::measures_step() {
  constexpr std::int64_t kMeasuredOnGpu = 50;
  const bool is_first = steps_begun++ == 0;
  return times && !is_first && (compute().memory.is_host() || times->steps() < kMeasuredOnGpu);
}

void Network::measure_ops() {
  parts_->times = std::make_unique<step::OpTimes>();
}

std::vector<OpTime> Network::op_times() {
  std::vector<OpTime> times;
  if (!parts_->times || parts_->times->steps() == 0) return times;
  require(parts_->in_flight.empty(), "Network::op_times: steps begun must be finished first");
  const std::vector<double>& seconds = parts_->times->each(*parts_->compute().kernels.queue);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const step::Op& op = parts_->training[i];
    times.push_back({step::name_of(op), step::place_of(op, parts_->facts), seconds[i]});
  }
  return times;
}

FixedSum Network::finish_step() {
  require(!parts_->in_flight.empty(), "Network::finish_step: no step was begun");
  const Parts::InFlight step = parts_->in_flight.front();
  parts_->in_flight.pop_front();
  context().collectives->wait(*context().compute.kernels.queue, step.done);
  const auto& layers = descriptor().layers;
  // A number a layer, which ranks add up: costs that are not finite, or deltas of a hidden layer,
  // count 1, sums of SoftMax that are out of range 2^32. Then one a layer for its source sum.
  constexpr std::int64_t kSumOutOfRange = std::int64_t(1) << 32;
  std::vector<std::int64_t> trouble(2 * layers.size(), 0);
  FixedSum cost;
  const StepFacts& facts = parts_->facts;
  const Outcome outcome(facts.outcome(), step.outcome);
  for (int layer : facts.order()) {
    const auto at = std::size_t(layer);
    const bool flagged = outcome.sum(layer)->out_of_range != 0;
    if (!facts.is_input(layer) && flagged)
      trouble[at] = facts.is_output(layer) ? kSumOutOfRange : 1;
    if (facts.sums_over_sources(layer))
      trouble[layers.size() + at] = outcome.source_sum(layer)->out_of_range;
    trouble[at] += add_costs(outcome.costs(layer), cost);
  }
  const FixedSum all = all_reduce_outcome(trouble, cost);
  const auto divergence = [&](int layer, const char* what) {
    return DivergenceError(fmt::format(
        "layer \"{}\": {} at step {} (epoch {}); lower the learning rate",
        layers[std::size_t(layer)].name, what, step.position.step, step.position.epoch + 1));
  };
  for (int layer : facts.order())  // these come first in a step
    if (trouble[layers.size() + std::size_t(layer)] != 0)
      throw divergence(layer, "a pre-activation is not finite or beyond 2^34");
  for (int layer : facts.order()) {
    const std::int64_t of_layer = trouble[std::size_t(layer)];
    if (of_layer == 0) continue;
    throw divergence(layer, !facts.is_output(layer) ? "a delta is not finite"
                            : of_layer % kSumOutOfRange == 0
                                ? "a sum over its units is beyond 2^26, check the targets' values,"
                                : "the cost is not finite");
  }
  for (int layer : facts.order())
    if (const double share = facts.is_factored(layer) ? *outcome.too_long(layer) : 0.0;
        share != 0.0)
      throw step::too_long_step(parts_->state, layer, step.position, share);
  if (!all.is_finite())
    throw DivergenceError(fmt::format(
        "the cost is beyond 2^62 at step {} (epoch {}), check the targets' values, or lower the "
        "learning rate",
        step.position.step, step.position.epoch + 1));
  return all;
}

// In one collective, for it is made at every step.
FixedSum Network::all_reduce_outcome(std::vector<std::int64_t>& trouble, const FixedSum& cost) {
  if (context().communicator.size() == 1) return cost;
  for (std::int64_t word : {cost.high(), cost.low(), cost.magnitude()}) trouble.push_back(word);
  context().communicator.all_reduce_sum(trouble);
  const std::size_t at = trouble.size() - 3;
  const FixedSum all = FixedSum::from_words(trouble[at], trouble[at + 1], trouble[at + 2]);
  trouble.resize(at);
  return all;
}

}  // namespace norn
