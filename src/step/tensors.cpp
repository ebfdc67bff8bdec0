// SPDX-License-Identifier: Apache-2.0
// The arrays of a network from the facts of its step.
#include "src/step/tensors.h"

#include "src/step/block_group.h"

#include <algorithm>

namespace norn {
namespace {

constexpr Purpose kWorking = Purpose::working;

// Elements of a tile of a weight gradient, of the largest call. Layers by example have terms.
Index gradient_tile(const StepFacts& facts, int edge) {
  const Edge& e = facts.edge(edge);
  if (facts.is_sparse_source(edge) || facts.is_shared(edge) || facts.by_example(e.destination) ||
      facts.is_factored(e.destination))
    return 0;
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
  units.resize(facts.layers());
  rooms.resize(facts.layers());
  unit_edges.resize(facts.layers());
  source_sums.resize(facts.layers());
  weight_squares.resize(facts.layers());
  weights.resize(facts.edges());
  shared.resize(facts.edges());
  for (int layer : facts.order()) add_layer(facts, layer);
  for (int edge = 0; edge < facts.edges(); ++edge) add_edge(facts, edge);
  add_lanes(facts);
  for (auto& outcome : outcomes)
    outcome = {"costs and flags of a step", kWorking, facts.outcome().bytes()};
  prediction_flags = {"flags of predictions", kWorking, facts.outcome().source_sums()};
  if (!facts.training()) return;
  Index summed = 0;
  bool clips = false;
  for (int layer : facts.order()) {
    summed += facts.sums_delta(layer);
    clips = clips || (!facts.is_input(layer) && facts.layer(layer).delta_norm > 0.0f);
  }
  if (facts.ranks() > 1) maxima = {"maxima of deltas", kWorking, summed, 1, Layout::whole};
  if (clips) row_squares = {"squares of deltas", kWorking, facts.settings().lanes, facts.batch()};
}

void StepTensors::add_layer(const StepFacts& facts, int layer) {
  const LayerDescriptor& descriptor = facts.layer(layer);
  const Index batch = facts.batch();
  const bool has_kind = step::with_room(facts, layer, [&]<typename Room>(std::type_identity<Room>) {
    rooms[layer].emplace<Room>(facts, layer);
  });
  require(has_kind, "StepTensors: a layer of a kind that no step has; require_runnable() tells");
  for (int number : facts.unit_edges(layer)) {
    const step::UnitEdge edge{facts.edge(number), int(unit_edges[layer].size())};
    const bool is_known =
        step::with_edge(edge.edge.kind, [&]<typename Room>(std::type_identity<Room>) {
          unit_edges[layer].emplace_back(std::in_place_type<Room>, facts, edge);
        });
    require(is_known, "StepTensors: an edge of a kind that src/step/edges/edges.h does not list");
  }
  if (facts.is_input(layer)) return;
  units[layer] =
      std::make_unique<UnitLayer>(facts.layer_settings(layer), facts.unit_slots(), facts.device());
  if (facts.training() && facts.bounds_sources_together(layer))
    weight_squares[layer] = {"squares of weights", kWorking, units[layer]->mine().count()};
  if (!facts.sums_over_sources(layer)) return;
  const char* of_all = "deltas of all units";
  auto sum = std::make_unique<SourceSum>();
  const SumShape shape = facts.source_sum(layer);
  sum->parts = DeltaSum(shape, !facts.on_gpu(), "sums over sources",
                        FixedFormat::of_any_step(shape.partial_sums));
  sum->z = {"sums over sources", kWorking, batch, facts.units(layer)};
  if (facts.training()) sum->delta = {of_all, kWorking, batch, descriptor.units(), Layout::whole};
  if (facts.training() && facts.device().precision.casts_operands())
    sum->bf16_delta = {of_all, kWorking, batch, descriptor.units(), Layout::whole};
  source_sums[layer] = std::move(sum);
}

void StepTensors::add_edge(const StepFacts& facts, int edge) {
  if (!facts.edge_takes_part(edge) || !facts.has_weights(edge)) return;
  const int owner = facts.owner(edge);
  const auto make = [&] {
    return std::make_unique<Weights>(facts.weight_shape(owner), facts.slots(owner),
                                     facts.training(), facts.device().block_rule,
                                     facts.weight_storage(owner));
  };
  if (owner == edge) {
    weights[edge] = make();
    weights[edge]->users = facts.users(edge);
  }
  if (!facts.training() || !facts.is_shared(edge)) return;
  const WeightShape shape = facts.weight_shape(owner);
  const std::unique_ptr<Weights> values = make();
  const char* use = "gradient of shared weights";
  if (shape.by_example && owner != edge) return;
  shared[edge] = std::make_unique<SharedGradient>();
  if (shape.by_example) {
    shared[edge]->sum = {use, kWorking, shape.owned.count(), values->cols(), Layout::by_unit};
    return;
  }
  shared[edge]->part = {use, kWorking, values->rows(), values->cols(), Layout::whole};
  if (owner == edge)
    shared[edge]->sum = {use, kWorking, values->rows(), values->cols(), Layout::whole};
}

namespace {

// Units of the widest source whose delta is made in the first lane before it is added: by layers by
// example, and by those without weights.
Index widest_sent(const StepFacts& facts) {
  Index widest = 0;
  for (int edge = 0; edge < facts.edges(); ++edge) {
    const auto [source, destination] =
        std::pair(facts.edge(edge).source, facts.edge(edge).destination);
    if (!facts.edge_takes_part(edge) || !facts.is_hidden(source)) continue;
    const bool at_once = facts.by_example(destination)
                             ? facts.by_example(source) && facts.sends_first(edge)
                             : facts.has_weights(edge) || facts.edge(edge).by_unit();
    if (!at_once) widest = std::max(widest, facts.layer(source).units());
  }
  return widest;
}

}  // namespace

void StepTensors::add_lanes(const StepFacts& facts) {
  Index widest_part = 0, widest_source = 0, gradient = 0, widest_z = 0, widest_delta = 0;
  for (int layer : facts.order()) {
    if (facts.is_input(layer)) continue;
    for (int edge : facts.matrices(layer)) {
      const int source = facts.edge(edge).source;
      const bool by_source = facts.by_source(edge);
      if (by_source) widest_part = std::max(widest_part, facts.layer(layer).units());
      if (!facts.is_input(source) && !facts.by_example(layer))
        widest_source = std::max(widest_source, by_source ? facts.partition(source).block_width()
                                                          : facts.layer(source).units());
      gradient = std::max(gradient, gradient_tile(facts, edge));
    }
    for (int edge : facts.unit_edges(layer))
      if (facts.edge(edge).from_all())
        widest_source = std::max(widest_source, facts.layer(facts.edge(edge).source).units());
    if (!facts.is_output(layer)) continue;
    if (facts.is_factored(layer)) {
      widest_z = std::max(widest_z, facts.shown_at_once(layer));
      continue;
    }
    const Index at_once = facts.units_at_once(layer);
    widest_delta = std::max(widest_delta, at_once);
    if (!facts.keeps_z(layer))
      widest_z = std::max(widest_z, facts.device().precision.transposes_operands()
                                        ? at_once
                                        : facts.partition(layer).block_width());
  }
  const Index batch = facts.batch();
  workspace.resize(std::size_t(facts.settings().lanes));
  for (Workspace& lane : workspace) {
    lane.z = {"pre-activations of a block", kWorking, batch, round_up_to_eight(widest_z)};
    const Index sent = &lane == workspace.data() ? widest_sent(facts) : 0;
    if (!facts.on_gpu())
      lane.dx = {"input deltas of a block", kWorking, batch,
                 facts.training() ? std::max({widest_source, widest_part, sent}) : widest_part};
    else if (facts.training() && sent > 0)
      lane.dx = {"input deltas of a block", kWorking, batch, sent};
    if (!facts.training()) continue;
    lane.gradient = {"gradient of a tile", kWorking, gradient};
    if (facts.device().precision.casts_operands())
      lane.delta = {"deltas of a block, bf16", kWorking, batch, bf16_stride(widest_delta)};
    if (facts.device().precision.transposes_operands())
      lane.transposed = {"deltas of a block, transposed", kWorking, widest_delta,
                         round_up_to_eight(batch)};
  }
}

Index StepTensors::bytes(const StepFacts& facts, Purpose purpose) {
  Index sum = 0;
  for_each(facts, [&](const std::string&, auto& array) {
    if (array.tensor().purpose == purpose) sum += array.tensor().bytes();
  });
  return sum;
}

}  // namespace norn
