// SPDX-License-Identifier: Apache-2.0
// What layers by example hold, and how a step goes through their own examples.
#include "src/step/layers/by_example.h"

#include "src/nn/run_sums.h"
#include "src/step/ops/unit_edges.h"
#include "src/step/program.h"

#include <algorithm>

namespace norn::step {
namespace {

/// The own examples of a batch and their runs, as rows of what this rank has. Runs without an
/// example are left out.
struct OwnRows {
  Range examples;
  std::vector<Range> runs;
  Index count() const { return examples.count(); }
};

OwnRows own_rows(const StepFacts& facts, Index examples) {
  const ExamplePartition cut = ExamplePartition::make(examples);
  OwnRows own{facts.own_examples(examples), {}};
  const Range runs = ExamplePartition::runs_of(facts.settings().rank, facts.ranks());
  for (Index run = runs.begin; run < runs.end; ++run) {
    const Range rows = cut.examples(run);
    if (rows.count() > 0)
      own.runs.push_back({rows.begin - own.examples.begin, rows.end - own.examples.begin});
  }
  return own;
}

// What a source gives for the own examples.
DenseOperand rows_of(State& state, int source, const OwnRows& own) {
  if (state.units[source] && state.facts.by_example(source))
    return state.units[source]->whole(own.count());
  return state.output_of(source).dense.row_range(own.examples.begin, own.count());
}

Index weights_of(const StepFacts& facts, int edge) {
  const WeightShape shape = facts.weight_shape(facts.owner(edge));
  return shape.sources * shape.destinations;
}

bool sends_delta(const StepFacts& facts, int edge) {
  return facts.is_hidden(facts.edge(edge).source);
}

// Sums of columns of all ranks, as terms of every run that this rank has.
template <typename Term>
void sum_columns(State& state, ExampleRoom& room, const OwnRows& own, Index columns,
                 const char* stage, const Term& term) {
  const MatrixView<double> parts = room.run_sums.first_rows(Index(own.runs.size()));
  state.compute().executor.for_each(parts.rows, [&](Index run, int) {
    std::fill_n(parts.row(run), columns, 0.0);
    const Range rows = own.runs[std::size_t(run)];
    for (Index r = rows.begin; r < rows.end; ++r) term(r, parts.row(run));
  });
  add_run_sums(parts, {room.sums.data(), columns});
  if (!state.is_alone()) state.stage(stage);
  state.collectives().all_reduce_sum(
      {reinterpret_cast<std::int64_t*>(room.sums.data()), FixedSum::kWords * std::size_t(columns)});
}

constexpr const char* kSumStatistics = "sum statistics";
constexpr const char* kSumBiases = "sum gradients of biases";
constexpr const char* kTerms = "gather terms of gradients";
constexpr const char* kValues = "gather weights";

void normalise(State& state, int layer, const OwnRows& own) {
  UnitLayer& unit = *state.units[layer];
  if (!unit.descriptor().batch_normalization) return;
  if (state.now.pass != Pass::training)
    return unit.normalise_by_running(state.compute(), own.count());
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const Index units = unit.mine().count();
  const MatrixView<float> z = unit.whole(own.count());
  sum_columns(state, room, own, 2 * units, kSumStatistics,
              [&](Index r, double* sums) { add_moments(z.row(r), units, sums); });
  state.stage("activation");
  normalise_rows(unit.norm_view(), {room.sums.data(), 2 * units}, state.examples(), z,
                 unit.normalised.first_rows(own.count()), unit.inverse_deviation.view());
}

void normalise_backward(State& state, int layer, const OwnRows& own, MatrixView<float> d) {
  UnitLayer& unit = *state.units[layer];
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const Index units = unit.mine().count();
  const MatrixView<const float> normalised = unit.normalised.first_rows(own.count());
  sum_columns(state, room, own, 2 * units, kSumStatistics, [&](Index r, double* sums) {
    add_products(d.row(r), normalised.row(r), units, sums);
  });
  state.stage("hidden delta");
  normalise_rows_backward(unit.norm_scale.value.view(), {room.sums.data(), 2 * units},
                          state.examples(), normalised, unit.inverse_deviation.view(), d,
                          unit.gradient.view(), unit.gradient2.view());
}

}  // namespace

ExampleRoom::ExampleRoom(const StepFacts& facts, int layer) {
  using enum Purpose;
  if (!facts.training()) return;
  const Index units = facts.layer(layer).units();
  const Index runs = ExamplePartition::runs_of(facts.settings().rank, facts.ranks()).count();
  Index largest = 0;
  for (int edge : facts.matrices(layer)) largest = std::max(largest, weights_of(facts, edge));
  terms = {"terms of gradients", working, runs, largest, Layout::by_example};
  gradient = {"gradient of own weights", working, largest / units * facts.units(layer)};
  run_sums = {"sums over examples", working, runs, 2 * units, Layout::by_example};
  sums = {"sums over examples", working, 2 * units, 1, Layout::whole};
  if (facts.feeds_by_example(layer) && facts.sums_delta(layer))
    from_units = {"deltas", working, facts.example_capacity(), units, Layout::by_example};
}

void ExampleRoom::forward(const StepFacts&, int layer, bool, OpList& ops) {
  ops.add(ExampleForward{layer});
}

void ExampleRoom::backward(const StepFacts& facts, int layer, OpList& ops) {
  ops.add(ExampleDelta{layer});
  if (std::ranges::any_of(facts.sources(layer), [&](int edge) { return sends_delta(facts, edge); }))
    ops.add(SendByExample{layer});
  ops.add(UpdateByOwners{layer});
}

void ExampleForward::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const OwnRows own = own_rows(state.facts, state.examples());
  unit.begin_rows(own.examples.begin);
  const MatrixView<float> z = unit.whole(own.count());
  const auto products = [&](Range rows) {
    const MatrixView<float> part = z.row_range(rows.begin, rows.count());
    for (std::size_t c = 0; c < unit.connections.size(); ++c) {
      const DenseOperand x =
          rows_of(state, unit.source_layers[c], own).row_range(rows.begin, rows.count());
      const DenseOperand w = unit.connections[c].operand(unit.mine());
      if (c == 0)
        compute.forward_products().affine(x, w, unit.bias.value.view(), part);
      else
        compute.forward_products().multiply_transposed(x, w, part, Existing::add);
    }
  };
  state.stage("hidden forward");
  if (unit.connections.empty()) unit.begin_forward(compute, own.count());
  if (compute.predicts)  // rows that stand alone
    products({0, own.count()});
  else
    compute.executor.for_each(Index(own.runs.size()),
                              [&](Index run, int) { products(own.runs[std::size_t(run)]); });
  add_rows_by_unit(state, layer, own.examples, z);
  state.stage("activation");
  normalise(state, layer, own);
  unit.activate(compute, own.count(), state.now.pass, state.now.position);
}

void GatherRows::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  const Range own = state.facts.own_examples(state.examples());
  const MatrixView<float> all = unit.gathered.first_rows(state.examples());
  state.stage("gather rows");
  state.kernels().pointwise->copy(unit.whole(own.count()), all.row_range(own.begin, own.count()));
  state.collectives().all_gather_rows(all, state.facts.example_shares(state.examples()));
}

void ExampleDelta::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const OwnRows own = own_rows(state.facts, state.examples());
  const MatrixView<float> d = unit.delta(own.count());
  state.stage("hidden delta");
  if (state.facts.sums_delta(layer)) {
    const bool adds = state.facts.feeds_by_example(layer);
    MatrixView<float> taken = d;
    if (adds) taken = state.room<ExampleRoom>(layer).from_units.first_rows(own.count());
    unit.delta_sum.take_rows(compute, own.examples.begin, taken);
    if (state.is_alone()) unit.delta_sum.adapt(compute);
    if (adds) compute.kernels.pointwise->add(taken, d);
  }
  if (!d.empty()) unit.undo_activation(compute, own.count(), state.now.position);
  if (unit.descriptor().batch_normalization) normalise_backward(state, layer, own, d);
}

namespace {

// Where the part of a source's delta that comes through an edge is made: rows of the own examples.
MatrixView<float> place_to_send(State& state, int edge, Range own) {
  const int source = state.facts.edge(edge).source;
  if (state.facts.by_example(source) && state.facts.sends_first(edge))
    return state.units[source]->delta(own.count());
  const Index width = state.facts.layer(source).units();
  return {state.workspace[0].dx.view().data + own.begin * width, own.count(), width, width};
}

// What stands in place_to_send() is the part of the own examples.
void send(State& state, int edge, Range own) {
  const int source = state.facts.edge(edge).source;
  UnitLayer& to = *state.units[source];
  const MatrixView<float> part = place_to_send(state, edge, own);
  if (state.facts.by_example(source)) {
    if (!state.facts.sends_first(edge) && !part.empty())
      state.kernels().pointwise->add(part, to.delta(own.count()));
    return;
  }
  const Index width = part.cols;
  float* const all = state.workspace[0].dx.view().data;
  std::fill_n(all, own.begin * width, 0.0f);
  std::fill_n(all + own.end * width, (state.examples() - own.end) * width, 0.0f);
  state.stage("fixed point");
  to.delta_sum.add(state.compute(), 0, {all, state.examples(), width, width});
}

}  // namespace

void send_own_rows(State& state, int edge, MatrixView<const float> delta) {
  const Range own = state.facts.own_examples(state.examples());
  if (!delta.empty()) state.kernels().pointwise->copy(delta, place_to_send(state, edge, own));
  send(state, edge, own);
}

void SendByExample::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const OwnRows own = own_rows(state.facts, state.examples());
  const MatrixView<float> d = unit.delta(own.count());
  for (std::size_t c = 0; c < unit.connections.size(); ++c) {
    const int edge = state.edge_of(layer, c);
    if (!sends_delta(state.facts, edge)) continue;
    const DenseOperand w = unit.connections[c].operand(unit.mine());
    const MatrixView<float> dx = place_to_send(state, edge, own.examples);
    state.stage("input delta");
    compute.executor.for_each(Index(own.runs.size()), [&](Index run, int) {
      const Range rows = own.runs[std::size_t(run)];
      compute.kernels.dense->multiply(d.row_range(rows.begin, rows.count()), w,
                                      dx.row_range(rows.begin, rows.count()));
    });
    send(state, edge, own.examples);
  }
  backward_rows_by_unit(state, layer, own.examples, d);
}

namespace {

// The terms of all runs of all ranks for the own units, in the order of the runs.
std::vector<MatrixView<const float>> terms_of_owner(State& state, ExampleRoom& room, int layer,
                                                    Index sources, const OwnRows& own) {
  const StepFacts& facts = state.facts;
  const Index elements = sources * facts.layer(layer).units();
  std::vector<MatrixView<const float>> mine;
  for (std::size_t run = 0; run < own.runs.size(); ++run)
    mine.push_back({room.terms.view().row(Index(run)), 1, elements, elements});
  std::vector<Range> shares;
  for (const Range& units : facts.shares(layer))
    shares.push_back({units.begin * sources, units.end * sources});
  const std::vector<Index> counts = facts.filled_runs(state.examples());
  if (!state.is_alone()) state.stage(kTerms);
  const std::vector<MatrixView<const float>> received =
      state.collectives().exchange_columns(mine, 1, counts, shares);
  const Range part = shares[std::size_t(facts.settings().rank)];
  std::vector<MatrixView<const float>> all;
  std::size_t next = 0;
  for (int rank = 0; rank < facts.ranks(); ++rank)
    for (Index run = 0; run < counts[std::size_t(rank)]; ++run)
      all.push_back(rank == facts.settings().rank
                        ? mine[std::size_t(run)].columns(part.begin, part.count())
                        : received[next++]);
  return all;
}

void update_weights(State& state, int layer, std::size_t c, const OwnRows& own) {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const WeightStep step = state.weight_step();
  const DenseOperand x = rows_of(state, unit.source_layers[c], own);
  Weights& weights = unit.connections[c].weights();
  const Index sources = weights.shape().sources;
  state.stage("weight update");
  compute.executor.for_each(Index(own.runs.size()), [&](Index run, int) {
    const Range rows = own.runs[std::size_t(run)];
    const MatrixView<float> g{room.terms.view().row(run), unit.mine().count(), sources, sources};
    compute.kernels.dense->gradient(unit.delta(own.count()).row_range(rows.begin, rows.count()),
                                    x.row_range(rows.begin, rows.count()), step.scale, g);
  });
  const auto terms = terms_of_owner(state, room, layer, sources, own);
  const Range owned = state.facts.mine(layer);
  const MatrixView<float> g{room.gradient.data(), owned.count(), sources, sources};
  state.stage("weight update");
  compute.executor.for_each(g.rows, [&](Index unit_row, int) {
    add_terms(terms, unit_row * sources, {g.row(unit_row), sources});
  });
  if (owned.count() > 0) {
    compute.kernels.update->update(step.rule, step.now(), weights.values_of(owned), g,
                                   weights.slots_of(owned), {});
    const float limit = unit.descriptor().weight_norm;
    if (limit > 0.0f) compute.kernels.update->clip_row_norms(limit, weights.values_of(owned));
  }
  if (!state.is_alone()) state.stage(kValues);
  state.collectives().all_gather_rows(weights.values(), state.facts.shares(layer));
}

void update_vector(State& state, int layer, UnitParameters& vector,
                   VectorView<const float> gradient) {
  const Range owned = state.facts.mine(layer);
  if (owned.count() > 0)
    vector.update(state.compute(), state.weight_step(), owned.begin,
                  gradient.range(owned.begin, owned.count()));
  const Index units = vector.value.size();
  state.collectives().all_gather_columns(MatrixView<float>{vector.value.data(), 1, units, units},
                                         state.facts.shares(layer));
}

}  // namespace

void UpdateByOwners::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const OwnRows own = own_rows(state.facts, state.examples());
  for (std::size_t c = 0; c < unit.connections.size(); ++c) update_weights(state, layer, c, own);
  state.stage("bias update");
  if (unit.descriptor().batch_normalization) {
    update_vector(state, layer, unit.norm_scale, unit.gradient.view());
    update_vector(state, layer, unit.norm_bias, unit.gradient2.view());
  }
  const Index units = unit.mine().count();
  const MatrixView<const float> d = unit.delta(own.count());
  sum_columns(state, room, own, units, kSumBiases, [&](Index r, double* sums) {
    for (Index c = 0; c < units; ++c) sums[c] += double(d(r, c));
  });
  state.stage("bias update");
  const double scale = double(state.weight_step().scale);
  for (Index c = 0; c < units; ++c)
    unit.gradient.data()[c] = float(room.sums.data()[c].value() * scale);
  update_vector(state, layer, unit.bias, unit.gradient.view());
}

// What they use, do and exchange.

namespace {

double own_rows_of(const StepFacts& facts, int layer) {
  return double(facts.own_examples(facts.batch()).count()) * double(facts.layer(layer).units());
}
double runs_of(const StepFacts& facts) {
  return double(facts.filled_runs(facts.batch())[std::size_t(facts.settings().rank)]);
}

// A product of the own examples with the whole weights of an edge.
void count_product(const StepFacts& facts, WorkList& list, const char* stage, int edge) {
  const auto weights = double(weights_of(facts, edge));
  list.add({.kind = Work::Kind::product,
            .stage = stage,
            .flops = 2.0 * double(facts.own_examples(facts.batch()).count()) * weights,
            .bytes = weights * kFloat,
            .calls = runs_of(facts),
            .edge = edge});
}

void list_sources(TensorUses& uses, int layer) {
  for (int edge : uses.facts.sources(layer)) {
    UnitLayer* source = uses.tensors.units[uses.facts.edge(edge).source].get();
    if (source) uses.reads(source->activations);
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
  uses.writes(unit.activations, unit.before_dropout, unit.pre_activations, unit.normalised,
              unit.inverse_deviation);
}

void ExampleForward::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer)) count_product(facts, list, "hidden forward", edge);
  const LayerDescriptor& descriptor = facts.layer(layer);
  list.pass("activation",
            own_rows_of(facts, layer) * kFloat * (descriptor.batch_normalization ? 7.0 : 2.0));
}

void ExampleForward::traffic(const StepFacts& facts, TrafficList& list) const {
  if (facts.training() && facts.layer(layer).batch_normalization)
    list.all_reduce(kSumStatistics, 2.0 * double(facts.layer(layer).units() * sizeof(FixedSum)));
}

void GatherRows::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(unit.activations);
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
  ExampleRoom& room = uses.tensors.room<ExampleRoom>(layer);
  uses.reads(unit.activations, unit.before_dropout, unit.pre_activations, unit.normalised,
             unit.inverse_deviation);
  if (uses.facts.sums_delta(layer)) uses.adds_to_delta(layer);
  uses.writes(room.from_units);
  if (uses.facts.feeds_by_example(layer)) uses.reads(unit.deltas);
  uses.writes(unit.deltas);
  if (!uses.facts.layer(layer).batch_normalization) return;
  uses.reads(unit.norm_scale.value);
  uses.writes(room.run_sums, room.sums, unit.gradient, unit.gradient2);
}

void ExampleDelta::work(const StepFacts& facts, WorkList& list) const {
  const double each = kWord + kFloat * (facts.layer(layer).batch_normalization ? 9.0 : 3.0);
  list.pass("hidden delta", own_rows_of(facts, layer) * each);
}

void ExampleDelta::traffic(const StepFacts& facts, TrafficList& list) const {
  if (facts.layer(layer).batch_normalization)
    list.all_reduce(kSumStatistics, 2.0 * double(facts.layer(layer).units() * sizeof(FixedSum)));
}

void SendByExample::tensors(TensorUses& uses) const {
  uses.reads(uses.tensors.units[layer]->deltas);
  uses.writes(uses.tensors.workspace[0].dx);
  for (int edge : uses.facts.matrices(layer)) uses.reads_weights(edge);
  for (int edge : uses.facts.sources(layer)) {
    if (!sends_delta(uses.facts, edge)) continue;
    const int source = uses.facts.edge(edge).source;
    if (!uses.facts.by_example(source))
      uses.adds_to_delta(source);
    else if (uses.facts.sends_first(edge))
      uses.writes(uses.tensors.units[source]->deltas);
    else
      uses.updates(uses.tensors.units[source]->deltas);
  }
}

void SendByExample::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer))
    if (sends_delta(facts, edge)) count_product(facts, list, "input delta", edge);
}

void UpdateByOwners::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  ExampleRoom& room = uses.tensors.room<ExampleRoom>(layer);
  list_sources(uses, layer);
  for (int edge : uses.facts.matrices(layer)) {
    uses.reads_activations(uses.facts.edge(edge).source);
    uses.updates_weights(edge);
  }
  uses.reads(unit.deltas);
  uses.writes(room.terms, room.gradient, room.run_sums, room.sums);
  if (uses.facts.layer(layer).batch_normalization) uses.reads(unit.gradient, unit.gradient2);
  uses.writes(unit.gradient);
  uses.updates_all(unit.bias);
  uses.updates_all(unit.norm_scale);
  uses.updates_all(unit.norm_bias);
}

void UpdateByOwners::work(const StepFacts& facts, WorkList& list) const {
  for (int edge : facts.matrices(layer)) {
    count_product(facts, list, "weight update", edge);
    const double weights = list.own_weights(edge);
    list.pass("weight update",
              weights * (list.update_bytes() + kFloat * double(ExamplePartition::kRuns)));
  }
  list.pass("bias update", own_rows_of(facts, layer) * kFloat);
}

void UpdateByOwners::traffic(const StepFacts& facts, TrafficList& list) const {
  const auto units = double(facts.layer(layer).units());
  for (int edge : facts.matrices(layer)) {
    const double bytes = double(weights_of(facts, edge)) * kFloat;
    list.terms(kTerms, layer, bytes);
    list.gather(kValues, layer, bytes);
  }
  const int vectors = facts.layer(layer).batch_normalization ? 3 : 1;
  for (int i = 0; i < vectors; ++i) list.gather("bias update", layer, units * kFloat);
  list.all_reduce(kSumBiases, units * double(sizeof(FixedSum)));
}

}  // namespace norn::step
