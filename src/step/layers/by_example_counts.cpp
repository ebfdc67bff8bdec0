// SPDX-License-Identifier: Apache-2.0
// What the ops of layers by example use, do and exchange.
#include "kernels/window_phases.h"
#include "src/step/layers/by_example.h"
#include "src/step/layers/example_edges.h"
#include "src/step/layers/window_tiles.h"
#include "src/step/program.h"

#include <algorithm>

namespace norn::step {
namespace {

double own_rows_of(const StepFacts& facts, int layer) {
  return double(facts.own_examples(facts.batch()).count()) * double(facts.layer(layer).units());
}
double runs_of(const StepFacts& facts) {
  return double(facts.filled_runs(facts.batch())[std::size_t(facts.settings().rank)]);
}

// Copies of the source and the delta that gradients in tf32 read, where they read any.
double bytes_turned(const StepFacts& facts, int edge) {
  const Window window = facts.window(edge);
  const Index filters = facts.channels(facts.edge(edge).destination);
  const Index run = ExamplePartition::make(facts.batch()).run_length();
  if (!facts.device().precision.transposes_operands() ||
      !window_pieces::can_turn(window, filters, run))
    return 0.0;
  return runs_of(facts) * double(window_pieces::turned_floats(window, filters, run)) * kFloat;
}

// What a product of windows reads and writes beside weights: activations and deltas of the edge's
// two layers, as products read them. Phases that are not placed come and go as floats.
double bytes_of_windows(const StepFacts& facts, int edge, WindowProduct product) {
  const int layer = facts.edge(edge).destination, source = facts.edge(edge).source;
  const double each = facts.device().computes_in_bf16 ? kBf16 : kFloat;
  const double here = own_rows_of(facts, layer) * each, there = own_rows_of(facts, source) * each;
  if (product == WindowProduct::gradient) return here + there + 2.0 * bytes_turned(facts, edge);
  if (product == WindowProduct::outputs) return here + there;
  const bool has_floats = !places_phases(facts, edge) &&
                          window_phases::can_read(facts.window(edge), facts.channels(layer));
  return here + 2.0 * there + (has_floats ? 2.0 * own_rows_of(facts, source) * kFloat : 0.0);
}

// A product of the own examples with the whole weights of an edge.
void count_product(const StepFacts& facts, WorkList& list, const char* stage, int edge,
                   WindowProduct product) {
  const auto weights = double(weights_of(facts, edge));
  const auto places = double(facts.places(facts.edge(edge).destination));
  list.add({.kind = Work::Kind::product,
            .stage = stage,
            .flops = 2.0 * double(facts.own_examples(facts.batch()).count()) * places * weights,
            .filled = facts.is_convolution(facts.edge(edge).destination)
                          ? tiles_filled(facts, edge, product)
                          : 1.0,
            .bytes = weights * kFloat,
            .calls = runs_of(facts),
            .edge = edge});
  if (facts.is_convolution(facts.edge(edge).destination))
    list.pass(stage, bytes_of_windows(facts, edge, product));
}

void list_sources(TensorUses& uses, int layer) {
  for (int edge : uses.facts.sources(layer)) {
    UnitLayer* source = uses.tensors.units[uses.facts.edge(edge).source].get();
    if (source) uses.reads(source->activations, source->bf16_rows);
  }
}

}  // namespace

void ExampleForward::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  ExampleRoom& room = uses.tensors.room<ExampleRoom>(layer);
  uses.reads_sources(layer);
  list_sources(uses, layer);
  if (uses.facts.layer(layer).batch_normalization) {
    uses.reads(unit.norm_scale.value, unit.norm_bias.value);
    uses.updates(unit.running_mean, unit.running_variance);
    uses.writes(room.run_sums, room.sums);
  }
  uses.writes(unit.activations, unit.bf16_rows, unit.before_dropout, unit.pre_activations,
              unit.normalised, unit.inverse_deviation);
}

void ExampleForward::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer))
    count_product(facts, list, "hidden forward", edge, WindowProduct::outputs);
  const LayerDescriptor& descriptor = facts.layer(layer);
  if (!facts.activates_in_product(layer) && !facts.rows_in_bf16(layer))
    list.pass("activation",
              own_rows_of(facts, layer) * kFloat * (descriptor.batch_normalization ? 7.0 : 2.0));
}

void ExampleForward::traffic(const StepFacts& facts, TrafficList& list) const {
  if (facts.training() && facts.layer(layer).batch_normalization)
    list.all_reduce(kSumStatistics, 2.0 * double(facts.channels(layer) * Index(sizeof(FixedSum))));
}

void GatherRows::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(unit.activations, unit.bf16_rows);
  uses.writes(unit.gathered);
}

void GatherRows::work(const StepFacts& facts, WorkList& list) const {
  list.pass("gather rows", 2.0 * kFloat * own_rows_of(facts, layer));
}

void GatherRows::traffic(const StepFacts&, TrafficList& list) const {
  list.gather_rows("gather rows", layer, kFloat);
}

void ExampleDelta::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(unit.activations, unit.before_dropout, unit.pre_activations, unit.normalised,
             unit.inverse_deviation);
  if (uses.facts.sums_delta(layer)) uses.adds_to_delta(layer);
  uses.writes(unit.unit_deltas);
  if (uses.facts.feeds_by_example(layer)) uses.reads(unit.deltas);
  if (uses.facts.gets_whole_delta(layer) || uses.facts.delta_in_bf16(layer))
    uses.reads(unit.bf16_deltas);
  uses.writes(unit.deltas, unit.bf16_deltas);
  if (!uses.facts.layer(layer).batch_normalization) return;
  ExampleRoom& room = uses.tensors.room<ExampleRoom>(layer);
  uses.reads(unit.norm_scale.value);
  uses.writes(room.run_sums, room.sums, unit.gradient, unit.gradient2);
}

void ExampleDelta::work(const StepFacts& facts, WorkList& list) const {
  if (facts.slopes_in_product(layer) || facts.delta_in_bf16(layer)) return;
  const double each = kWord + kFloat * (facts.layer(layer).batch_normalization ? 9.0 : 3.0);
  list.pass("hidden delta", own_rows_of(facts, layer) * each);
}

void ExampleDelta::traffic(const StepFacts& facts, TrafficList& list) const {
  if (facts.layer(layer).batch_normalization)
    list.all_reduce(kSumStatistics, 2.0 * double(facts.channels(layer) * Index(sizeof(FixedSum))));
}

void SendByExample::tensors(TensorUses& uses) const {
  uses.reads(uses.tensors.units[layer]->deltas, uses.tensors.units[layer]->bf16_deltas);
  uses.writes(uses.tensors.workspace[0].dx);
  for (int edge : uses.facts.matrices(layer)) uses.reads_weights(edge);
  for (int edge : uses.facts.sources(layer)) {
    if (!sends_delta(uses.facts, edge)) continue;
    const int source = uses.facts.edge(edge).source;
    // A source may be skipped from, too: then what comes first is written here all the same.
    const bool begins = std::ranges::any_of(uses.facts.sources(layer), [&](int other) {
      return uses.facts.edge(other).source == source && uses.facts.sends_first(other);
    });
    UnitLayer& unit = *uses.tensors.units[source];
    if (uses.facts.gets_whole_delta(source) || uses.facts.delta_in_bf16(source)) {
      uses.reads(unit.activations, unit.bf16_rows);
      uses.writes(unit.bf16_deltas);
    }
    if (!uses.facts.by_example(source))
      uses.adds_to_delta(source);
    else if (begins)
      uses.writes(unit.deltas);
    else
      uses.updates(unit.deltas);
  }
}

void SendByExample::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer))
    if (sends_delta(facts, edge))
      count_product(facts, list, "input delta", edge, WindowProduct::input_delta);
}

void UpdateByOwners::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  ExampleRoom& room = uses.tensors.room<ExampleRoom>(layer);
  list_sources(uses, layer);
  for (int edge : uses.facts.matrices(layer)) {
    uses.reads_activations(uses.facts.edge(edge).source);
    if (uses.facts.is_shared(edge))
      uses.updates(uses.tensors.shared[uses.facts.owner(edge)]->sum);
    else
      uses.updates_weights(edge);
  }
  uses.reads(unit.deltas, unit.bf16_deltas);
  uses.writes(room.terms, room.gradient, room.run_sums, room.sums);
  if (uses.facts.layer(layer).batch_normalization) uses.reads(unit.gradient, unit.gradient2);
  uses.writes(unit.gradient);
  uses.updates_all(unit.bias);
  uses.updates_all(unit.norm_scale);
  uses.updates_all(unit.norm_bias);
}

void UpdateByOwners::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer)) {
    count_product(facts, list, "weight update", edge, WindowProduct::gradient);
    const Index of_channel = weights_of(facts, edge) / facts.channels(layer);
    const auto weights = double(of_channel * facts.units(layer));
    const double update = facts.is_shared(edge) ? 3.0 * kFloat : list.update_bytes(edge);
    list.pass("weight update", weights * (update + kFloat * double(ExamplePartition::kRuns)));
  }
  list.pass("bias update",
            own_rows_of(facts, layer) * (facts.delta_in_bf16(layer) ? kBf16 : kFloat));
}

void UpdateByOwners::traffic(const StepFacts& facts, TrafficList& list) const {
  const auto units = double(facts.channels(layer));
  for (int edge : facts.matrices(layer)) {
    const double bytes = double(weights_of(facts, edge)) * kFloat;
    list.terms(kTerms, layer, bytes);
    if (!facts.is_shared(edge)) list.gather(kValues, layer, bytes);
  }
  const int vectors = facts.layer(layer).batch_normalization ? 3 : 1;
  for (int i = 0; i < vectors; ++i) list.gather("bias update", layer, units * kFloat);
  list.all_reduce(kSumBiases, units * double(sizeof(FixedSum)));
}

}  // namespace norn::step
