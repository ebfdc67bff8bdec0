// SPDX-License-Identifier: Apache-2.0
// The cost of targets that the network is not trained on: forward, and the first half of what an
// output layer does with a block.
#include "norn/base/error.h"
#include "norn/engine/network.h"
#include "src/engine/network_state.h"

#include <bit>
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
  visited_.resize(std::size_t(context_.compute.executor.lanes()));
  for (Buffer<float>& lane : visited_)
    if (const Index size = batch_ * layer->partition().block_width(); lane.size() < size)
      lane = Buffer<float>(size, context_.compute.memory);
  return cost_and_outputs(batch, output_layer, visit);
}

// `visit` sees the outputs of layer `visited`, if that is one.
FixedSum Network::cost_and_outputs(const BoundBatch& batch, int visited,
                                   const BlockVisitor& visit) {
  require(batch.examples >= 1 && batch.examples <= batch_,
          "Network::cost: batch is empty or larger than planned");
  require(in_flight_.empty(), "Network::cost: steps begun before must be finished first");
  load(batch, Pass::prediction, StepPosition{}, true);
  context_.compute.kernels.queue->run([&] {
    begin_prediction(batch.examples);
    outcome().fill_zero();
    forward_hidden(batch, Pass::prediction, StepPosition{});
    for (int layer : order_)
      if (outputs_[std::size_t(layer)])
        enqueue_cost(layer, batch, layer == visited ? visit : BlockVisitor());
  });
  require_sums_in_range();
  context_.collectives->wait_for_all(*context_.compute.kernels.queue);
  std::vector<std::int64_t> words(std::size_t(outcome().size()));
  outcome().read(words.data(), outcome().size());
  return read_cost(words);
}

void Network::enqueue_cost(int number, const BoundBatch& batch, const BlockVisitor& visit) {
  UnitLayer& layer = *units_[std::size_t(number)];
  const OutputState& state = *outputs_[std::size_t(number)];
  const Compute& compute = context_.compute;
  const TargetView target = target_view(number, batch);
  sum_source_parts(number, batch.examples);
  if (layer.is_softmax()) softmax_rows(number, &target, batch.examples);
  const Range blocks = own_blocks(layer);
  double* costs = reinterpret_cast<double*>(outcome().data() + first_cost_[std::size_t(number)]);
  compute.executor.for_each(blocks.count(), [&](Index b, int lane) {
    const Range units = layer.partition().units(blocks.begin + b);
    const MatrixView<float> z = block_z(layer, units, batch.examples, lane);
    if (!layer.is_softmax() || state.kept_z.empty()) pre_activation(layer, units, z);
    if (visit) {  // before the deltas take the place of the pre-activations
      const MatrixView<float> y{visited_[std::size_t(lane)].data(), z.rows, z.cols, z.cols};
      compute.kernels.pointwise->copy(z, y);
      activate_block(layer, state, y);
      visit(units, y, lane);
    }
    block_delta(number, target, units, z, costs + b, lane);
  });
}

// Blocks' costs of all ranks; `words` are laid out as build_outcome() says.
FixedSum Network::read_cost(std::span<const std::int64_t> words) {
  FixedSum cost;
  std::vector<std::int64_t> trouble(units_.size(), 0);
  for (int layer : order_) {
    const auto at = std::size_t(layer);
    if (!outputs_[at]) continue;
    trouble[at] += words[2 * at + 1] != 0;  // of SoftMax's sums
    const Range blocks = own_blocks(*units_[at]);
    for (Index b = 0; b < blocks.count(); ++b) {
      const double part = std::bit_cast<double>(words[std::size_t(first_cost_[at] + b)]);
      if (std::isfinite(part))
        cost.add(part);
      else
        trouble[at] += 1;
    }
  }
  const FixedSum all = join_outcome(trouble, cost);
  for (int layer : order_)
    if (trouble[std::size_t(layer)] != 0 || (outputs_[std::size_t(layer)] && !all.is_finite()))
      throw DivergenceError(
          fmt::format("layer \"{}\": the cost of examples that it is not trained on is not finite; "
                      "the network has diverged: lower the learning rate, or the examples are far "
                      "from those that it is trained on",
                      graph_.network.layers[std::size_t(layer)].name));
  return all;
}

}  // namespace norn
