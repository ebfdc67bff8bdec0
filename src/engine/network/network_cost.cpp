// SPDX-License-Identifier: Apache-2.0
// The cost of targets that the network is not trained on.
#include "norn/base/error.h"
#include "src/engine/network/network_parts.h"

#include <cmath>

#include <fmt/format.h>

namespace norn {

FixedSum Network::cost(const BoundBatch& batch) {
  return cost_and_outputs(batch, -1, {});
}

FixedSum Network::predict_with_cost(const BoundBatch& batch, int output_layer,
                                    const BlockVisitor& visit) {
  const UnitLayer* layer = unit_layer(output_layer);
  require(layer != nullptr && layer->is_output(),
          "Network::predict_with_cost: the layer is no Output layer of this network");
  std::vector<Buffer<float>>& visited = parts_->state.visited;
  visited.resize(std::size_t(context().compute.executor.lanes()));
  const Index units = is_factored(output_layer) ? 0 : layer->partition().block_width();
  for (Buffer<float>& lane : visited)
    if (const Index size = this->batch() * units; lane.size() < size)
      lane = Buffer<float>(size, context().compute.memory);
  return cost_and_outputs(batch, output_layer, visit);
}

// `visit` sees the outputs of layer `visited`, if that is one.
FixedSum Network::cost_and_outputs(const BoundBatch& batch, int visited,
                                   const BlockVisitor& visit) {
  parts_->require_planned(batch, "cost");
  require(parts_->in_flight.empty(), "Network::cost: steps begun before must be finished first");
  parts_->pass(step::compile_cost(parts_->facts, visited), batch, &visit, true);
  require_sums_in_range();
  context().collectives->wait_for_all(*context().compute.kernels.queue);
  const Buffer<std::byte>& of_step = parts_->state.outcome_bytes();
  std::vector<std::byte> bytes(std::size_t(of_step.size()));
  of_step.read(bytes.data(), of_step.size());
  return read_cost({parts_->facts.outcome(), bytes.data()});
}

std::int64_t add_costs(std::span<const double> of_blocks, FixedSum& cost) {
  std::int64_t wrong = 0;
  for (double part : of_blocks) std::isfinite(part) ? cost.add(part) : void(++wrong);
  return wrong;
}

// Blocks' costs of all ranks.
FixedSum Network::read_cost(const Outcome& outcome) {
  FixedSum cost;
  const StepFacts& facts = parts_->facts;
  std::vector<std::int64_t> trouble(std::size_t(facts.layers()), 0);
  for (int layer : facts.order()) {
    const auto at = std::size_t(layer);
    if (!facts.is_output(layer)) continue;
    trouble[at] += outcome.sum(layer)->out_of_range != 0;  // of SoftMax's sums
    trouble[at] += add_costs(outcome.costs(layer), cost);
  }
  const FixedSum all = all_reduce_outcome(trouble, cost);
  for (int layer : facts.order())
    if (trouble[std::size_t(layer)] != 0 || (facts.is_output(layer) && !all.is_finite()))
      throw DivergenceError(
          fmt::format("layer \"{}\": the cost of examples that it is not trained on is not finite; "
                      "the network has diverged: lower the learning rate, or the examples are far "
                      "from those that it is trained on",
                      facts.layer(layer).name));
  return all;
}

}  // namespace norn
