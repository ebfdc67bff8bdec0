// SPDX-License-Identifier: Apache-2.0
// The arrays of a network from the facts of its step.
#include "src/step/tensors.h"

#include "src/step/block_group.h"
#include "src/step/rounded_rows.h"
#include "src/step/target_runs.h"

#include <algorithm>

namespace norn {
namespace {

template <typename T>
Tensor working(const char* use, Index rows, Index cols = 1) {
  return Tensor::of<T>(use, Purpose::working, rows, cols);
}

int slots(const StepFacts& facts) {
  return facts.training() ? slots_of(facts.graph().network.training.optimizer) : 0;
}

// Elements of a tile of a weight gradient, of the largest call.
Index gradient_tile(const StepFacts& facts, int edge) {
  if (facts.is_sparse_source(edge) || facts.is_shared(edge)) return 0;
  const Edge& e = facts.edge(edge);
  const bool by_source = facts.by_source(edge);
  const BlockPartition& cut = facts.partition(by_source ? e.source : e.destination);
  const Index columns = facts.layer(by_source ? e.destination : e.source).units();
  const Index block = cut.blocks() > 1 && !by_source ? cut.block_width() : 0;
  const Index units = by_source ? cut.block_width() : facts.units_at_once(e.destination);
  return gradient_units(facts.device().block_rule, block, units, columns) * columns;
}

}  // namespace

std::string edge_name(const StepFacts& facts, int edge) {
  return facts.layer(facts.edge(edge).source).name + " -> " +
         facts.layer(facts.edge(edge).destination).name;
}

StepTensors::StepTensors(const StepFacts& facts) {
  const auto layers = std::size_t(facts.layers());
  units = Numbered<UnitLayer::Tensors>(layers);
  outputs = Numbered<OutputTensors>(layers);
  source_sums = Numbered<SourceSumTensors>(layers);
  feature_weights = weight_squares = Numbered<Tensor>(layers);
  weights = Numbered<WeightTensors>(std::size_t(facts.edges()));
  shared = Numbered<SharedTensors>(std::size_t(facts.edges()));
  for (int layer : facts.order()) add_layer(facts, layer);
  for (int edge = 0; edge < facts.edges(); ++edge) add_edge(facts, edge);
  add_lane(facts);
  outcome = working<std::int64_t>("costs and flags of a step", facts.outcome_words());
  prediction_flags = working<std::int64_t>("flags of predictions", facts.sum_flags());
  if (!facts.training()) return;
  Index summed = 0;
  bool clips = false;
  for (int layer : facts.order()) {
    summed += facts.wants_delta(layer);
    clips = clips || (!facts.is_input(layer) && facts.layer(layer).delta_norm > 0.0f);
  }
  if (facts.ranks() > 1) maxima = working<float>("maxima of deltas", summed);
  if (clips)
    row_squares = working<FixedSum>("squares of deltas", facts.settings().lanes, facts.batch());
}

void StepTensors::add_layer(const StepFacts& facts, int layer) {
  const LayerDescriptor& descriptor = facts.layer(layer);
  const Index batch = facts.batch();
  if (facts.is_input(layer)) {
    if (weights_features(descriptor.input_weighting))
      feature_weights[layer] = working<float>("weights of features", descriptor.units());
    return;
  }
  units[layer] = UnitLayer::Tensors(facts.layer_settings(layer), slots(facts), facts.device());
  if (facts.training() && facts.bounds_sources_together(layer))
    weight_squares[layer] = working<double>("squares of weights", facts.units(layer));
  if (facts.is_output(layer)) add_output(facts, layer);
  if (!facts.sums_over_sources(layer)) return;
  SourceSumTensors& sum = source_sums[layer];
  sum.parts =
      DeltaSum::Tensors(facts.source_sum(layer), facts.device().is_host, "sums over sources");
  sum.z = working<float>("sums over sources", batch, facts.units(layer));
  if (!facts.training()) return;
  sum.delta = working<float>("deltas of all units", batch, descriptor.units());
  if (facts.device().rounds_operands)
    sum.rounded_delta = working<Bfloat16>("deltas of all units", batch, descriptor.units());
}

void StepTensors::add_output(const StepFacts& facts, int layer) {
  OutputTensors& output = outputs[layer];
  const Index batch = facts.batch();
  const BlockPartition& partition = facts.partition(layer);
  if (facts.may_fuse_delta(layer) && facts.sparse_input(layer))
    output.target_places = working<std::byte>(
        "places of stored targets",
        TargetRuns(facts.mine(layer), partition.block_width(), batch).planned_bytes());
  if (!facts.is_softmax(layer)) return;
  const char* rows = "sums of SoftMax rows";
  const Index blocks = facts.own_blocks(layer).count();
  output.block_maximum = output.block_sum = working<float>(rows, blocks, batch);
  if (facts.ranks() > 1) output.rank_maximum = working<float>(rows, facts.ranks(), batch);
  output.maximum = working<float>(rows, batch);
  output.total = output.coupling = working<std::int64_t>(rows, batch);
  if (facts.keeps_z(layer))
    output.kept_z = working<float>(
        "pre-activations",
        kept_columns(facts.partition(layer), blocks, facts.units(layer), facts.training()), batch);
}

void StepTensors::add_edge(const StepFacts& facts, int edge) {
  if (!facts.edge_takes_part(edge)) return;
  const int owner = facts.owner(edge);
  const WeightTensors tensors(facts.weight_shape(owner), slots(facts), facts.training(),
                              facts.device());
  if (owner == edge) weights[edge] = tensors;
  if (!facts.training() || !facts.is_shared(edge)) return;
  const Tensor gradient =
      working<float>("gradient of shared weights", tensors.values.rows, tensors.values.cols);
  shared[edge].part = gradient;
  if (owner == edge) shared[edge].sum = gradient;
}

void StepTensors::add_lane(const StepFacts& facts) {
  Index widest_part = 0, widest_source = 0, gradient = 0, widest_z = 0, widest_delta = 0;
  for (int layer : facts.order()) {
    if (facts.is_input(layer)) continue;
    for (int edge : facts.sources(layer)) {
      const int source = facts.edge(edge).source;
      const bool by_source = facts.by_source(edge);
      if (by_source) widest_part = std::max(widest_part, facts.layer(layer).units());
      if (!facts.is_input(source))
        widest_source = std::max(widest_source, by_source ? facts.partition(source).block_width()
                                                          : facts.layer(source).units());
      gradient = std::max(gradient, gradient_tile(facts, edge));
    }
    if (!facts.is_output(layer)) continue;
    const Index at_once = facts.units_at_once(layer);
    widest_delta = std::max(widest_delta, at_once);
    if (!facts.keeps_z(layer))
      widest_z = std::max(
          widest_z, facts.device().turns_operands ? at_once : facts.partition(layer).block_width());
  }
  const Index batch = facts.batch();
  lane.z = working<float>("pre-activations of a block", batch, round_up_to_eight(widest_z));
  if (!facts.on_gpu())
    lane.dx = working<float>("input deltas of a block", batch,
                             facts.training() ? std::max(widest_source, widest_part) : widest_part);
  if (!facts.training()) return;
  lane.gradient = working<float>("gradient of a tile", gradient);
  if (facts.device().rounds_operands)
    lane.rounded_delta =
        working<Bfloat16>("deltas of a block, rounded", batch, rounded_stride(widest_delta));
  if (facts.device().turns_operands)
    lane.turned_delta =
        working<float>("deltas of a block, turned over", widest_delta, round_up_to_eight(batch));
}

Index StepTensors::bytes(const StepFacts& facts, Purpose purpose) const {
  Index sum = 0;
  for_each(facts, [&](const std::string&, const Tensor& tensor, int count) {
    if (tensor.purpose == purpose) sum += count * tensor.bytes();
  });
  return sum;
}

}  // namespace norn
