// SPDX-License-Identifier: Apache-2.0
// What layers by example hold, and how a step goes through their own examples.
#include "src/step/layers/by_example.h"

#include "src/step/layers/example_edges.h"
#include "src/step/layers/own_examples.h"
#include "src/step/ops/unit_edges.h"
#include "src/step/program.h"

#include <algorithm>
#include <optional>

namespace norn::step {
namespace {

// Sums over the rows of all ranks: of a and, where there is a b, of a * b.
VectorView<const FixedSum> sum_columns(State& state, ExampleRoom& room, const OwnRows& own,
                                       const char* stage, const DenseOperand& a,
                                       MatrixView<const float> b = {}) {
  std::vector<Range> runs;
  for (const Range& run : own.runs) runs.push_back({run.begin * own.places, run.end * own.places});
  const VectorView<FixedSum> sums{room.sums.data(), a.cols() + b.cols};
  state.kernels().run_sums->sum_columns(a, b, runs, room.run_sums.view(), sums);
  if (!state.is_alone()) state.stage(stage);
  state.collectives().all_reduce_sum(
      {reinterpret_cast<std::int64_t*>(sums.data), FixedSum::kWords * std::size_t(sums.size)});
  return sums;
}

void normalise(State& state, int layer, const OwnRows& own) {
  UnitLayer& unit = *state.units[layer];
  if (!unit.descriptor().batch_normalization) return;
  if (state.now.pass != Pass::training)
    return unit.normalise_by_running(state.compute(), own.rows());
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const MatrixView<float> z = unit.whole(own.rows());
  const VectorView<const FixedSum> moments = sum_columns(state, room, own, kSumStatistics, z, z);
  state.stage("activation");
  state.kernels().normalization->normalise_rows(
      unit.norm_view(), moments, state.examples() * own.places, z,
      unit.normalised.first_rows(own.rows()), unit.inverse_deviation.view());
}

void normalise_backward(State& state, int layer, const OwnRows& own, MatrixView<float> d) {
  UnitLayer& unit = *state.units[layer];
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const MatrixView<const float> normalised = unit.normalised.first_rows(own.rows());
  const VectorView<const FixedSum> products =
      sum_columns(state, room, own, kSumStatistics, d, normalised);
  state.stage("hidden delta");
  state.kernels().normalization->normalise_rows_backward(
      unit.norm_scale.value.view(), products, state.examples() * own.places, state.examples(),
      normalised, unit.inverse_deviation.view(), d, unit.gradient.view(), unit.gradient2.view());
}

}  // namespace

ExampleRoom::ExampleRoom(const StepFacts& facts, int layer) {
  using enum Purpose;
  if (!facts.training()) return;
  const Index units = facts.channels(layer);
  const Index runs = ExamplePartition::runs_of(facts.settings().rank, facts.ranks()).count();
  Index largest = 0;
  for (int edge : facts.matrices(layer)) largest = std::max(largest, weights_of(facts, edge));
  // Every term begins where products can write it in whole runs, whichever run's it is.
  terms = {"terms of gradients", working, runs, round_up_to_eight(largest), Layout::by_example};
  gradient = {"gradient of own weights", working, largest / units * facts.units(layer)};
  run_sums = {"sums over examples", working, runs, 2 * units, Layout::by_example};
  sums = {"sums over examples", working, 2 * units, 1, Layout::whole};
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

namespace {

// Nothing of an example depends on the others there.
void convolve(State& state, int layer, const OwnRows& own, MatrixView<float> z) {
  UnitLayer& unit = *state.units[layer];
  if (unit.connections.empty()) unit.begin_forward(state.compute(), own.rows());
  if (z.empty()) return;
  ConvolutionKernels& kernels = *state.kernels().convolution;
  for (std::size_t c = 0; c < unit.connections.size(); ++c) {
    const Window window = state.facts.window(state.edge_of(layer, c));
    const DenseOperand x = rows_of(state, unit.source_layers[c], own.examples);
    const MatrixView<const float> filters = unit.connections[c].weights().floats();
    if (c == 0)
      kernels.forward_from_bias(window, x, filters, unit.bias.value.view(), z);
    else
      kernels.forward(window, x, filters, z, Existing::add);
  }
}

bool convolve_to_outputs(State& state, int layer, const OwnRows& own) {
  UnitLayer& unit = *state.units[layer];
  if (!unit.settings().rows_in_bf16 && !state.facts.activates_alone(layer)) return false;
  const DenseOperand x = rows_of(state, unit.source_layers[0], own.examples);
  return unit.convolve_to_outputs(state.compute(), state.facts.window(state.edge_of(layer, 0)), x,
                                  own.count(), state.now.pass, state.now.position);
}

void multiply(State& state, int layer, const OwnRows& own, MatrixView<float> z) {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const auto products = [&](Range rows) {
    const MatrixView<float> part = z.row_range(rows.begin, rows.count());
    for (std::size_t c = 0; c < unit.connections.size(); ++c) {
      const DenseOperand x =
          rows_of(state, unit.source_layers[c], own.examples).row_range(rows.begin, rows.count());
      const DenseOperand w = unit.connections[c].operand(unit.mine());
      if (c == 0)
        compute.forward_products().affine(x, w, unit.bias.value.view(), part);
      else
        compute.forward_products().multiply_transposed(x, w, part, Existing::add);
    }
  };
  if (unit.connections.empty()) unit.begin_forward(compute, own.count());
  if (compute.predicts)  // rows that stand alone
    products({0, own.count()});
  else
    compute.executor.for_each(Index(own.runs.size()),
                              [&](Index run, int) { products(own.runs[std::size_t(run)]); });
}

}  // namespace

void ExampleForward::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const OwnRows own = own_rows(state.facts, layer, state.examples());
  unit.begin_rows(own.examples.begin);
  const MatrixView<float> z = unit.examples_of(unit.activations, own.count());
  state.stage("hidden forward");
  if (convolve_to_outputs(state, layer, own)) return;
  if (state.facts.is_convolution(layer))
    convolve(state, layer, own, z);
  else
    multiply(state, layer, own, z);
  add_rows_by_unit(state, layer, own.examples, z);
  state.stage("activation");
  normalise(state, layer, own);
  unit.activate(compute, own.rows(), state.now.pass, state.now.position);
}

void GatherRows::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  const Range own = state.facts.own_examples(state.examples());
  const MatrixView<float> all = unit.gathered.first_rows(state.examples());
  state.stage("gather rows");
  state.kernels().convolution->to_file_order(state.facts.channels(layer), unit.rows(own.count()),
                                             all.row_range(own.begin, own.count()));
  state.collectives().all_gather_rows(all, state.facts.example_shares(state.examples()));
}

void ExampleDelta::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const OwnRows own = own_rows(state.facts, layer, state.examples());
  state.stage("hidden delta");
  if (state.facts.sums_delta(layer)) {
    const bool aside = state.facts.takes_delta_aside(layer);
    const MatrixView<float> all = unit.examples_of(unit.deltas, own.count());
    const MatrixView<float> taken = aside ? unit.unit_deltas.first_rows(own.count()) : all;
    unit.delta_sum.take_rows(compute, own.examples.begin, taken);
    if (state.is_alone()) unit.delta_sum.adapt(compute);
    if (aside)
      compute.kernels.convolution->to_channels_last(
          state.facts.channels(layer), taken, all,
          state.facts.feeds_by_example(layer) ? Existing::add : Existing::overwrite);
  }
  if (unit.take_final_delta() || unit.settings().delta_in_bf16) return;
  const MatrixView<float> d = unit.delta(own.rows());
  if (!d.empty() && rules_of(unit.descriptor().type).has_activation)
    unit.undo_activation(compute, own.rows(), state.now.position);
  if (!unit.descriptor().batch_normalization) return;
  normalise_backward(state, layer, own, d);
  if (!unit.bf16_deltas.empty() && !d.empty())
    compute.kernels.pointwise->cast_to_bf16(d, unit.bf16_deltas.first_rows(own.rows()));
}

namespace {

// To the source's delta behind its activation function, where nothing else stands in between.
bool send_through(State& state, int edge, const DenseOperand& delta, const DenseOperand& w,
                  const OwnRows& own) {
  const int source = state.facts.edge(edge).source;
  UnitLayer& unit = *state.units[source];
  const bool in_bf16 = unit.settings().delta_in_bf16;
  if (!in_bf16 && !state.facts.gets_whole_delta(source)) return false;
  if (own.count() == 0) return in_bf16;
  state.stage("input delta");
  const UnitLayer::DeltaThrough to = unit.delta_through(own.count());
  return unit.set_final_delta(state.kernels().convolution->input_delta_through(
      state.facts.window(edge), delta, w.values, to.f, to.kept, to.x, to.delta));
}

}  // namespace

void SendByExample::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  const OwnRows own = own_rows(state.facts, layer, state.examples());
  const MatrixView<float> d = unit.examples_of(unit.deltas, own.count());
  for (std::size_t c = 0; c < unit.connections.size(); ++c) {
    const int edge = state.edge_of(layer, c);
    if (!sends_delta(state.facts, edge)) continue;
    const DenseOperand w = unit.connections[c].operand(unit.mine());
    if (send_through(state, edge, unit.delta_rows(own.count()), w, own)) continue;
    const MatrixView<float> dx = place_to_send(state, edge, own.examples);
    state.stage("input delta");
    if (state.facts.is_convolution(layer) && !d.empty())
      state.kernels().convolution->input_delta(state.facts.window(edge),
                                               unit.delta_rows(own.count()), w.values, dx,
                                               Existing::overwrite);
    else if (!state.facts.is_convolution(layer))
      compute.executor.for_each(Index(own.runs.size()), [&](Index run, int) {
        const Range rows = own.runs[std::size_t(run)];
        compute.kernels.dense->multiply(d.row_range(rows.begin, rows.count()), w,
                                        dx.row_range(rows.begin, rows.count()));
      });
    send(state, edge, own.examples);
  }
  backward_rows_by_unit(state, layer, own.examples, d);
}

void update_by_owner(State& state, int edge, MatrixView<const float> gradient) {
  const int layer = state.facts.edge(edge).destination;
  const Range owned = state.facts.mine(layer);
  UpdateKernels& kernels = *state.kernels().update;
  const WeightStep step = state.weight_step(edge);
  Weights& weights = *state.weights[edge];
  if (owned.count() > 0) {
    kernels.update(step.rule, step.now(), weights.floats_of(owned), gradient,
                   weights.slots_of(owned));
    const float limit = state.facts.layer(layer).weight_norm;
    if (limit > 0.0f && !state.facts.bounds_sources_together(layer))
      kernels.clip_row_norms(limit, weights.floats_of(owned));
  }
  if (!state.is_alone()) state.stage(kValues);
  state.collectives().all_gather_rows(weights.floats(), state.facts.shares(layer));
}

namespace {

// The terms of all runs of all ranks for the own units, in the order of the runs.
std::vector<VectorView<const float>> terms_of_owner(State& state, ExampleRoom& room, int layer,
                                                    Index sources, const OwnRows& own) {
  const StepFacts& facts = state.facts;
  const Index elements = sources * facts.channels(layer);
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
  std::vector<VectorView<const float>> all;
  std::size_t next = 0;
  for (int rank = 0; rank < facts.ranks(); ++rank)
    for (Index run = 0; run < counts[std::size_t(rank)]; ++run) {
      const bool is_own = rank == facts.settings().rank;
      all.push_back({is_own ? mine[std::size_t(run)].data + part.begin : received[next++].data,
                     part.count()});
    }
  return all;
}

void update_weights(State& state, int layer, std::size_t c, const OwnRows& own) {
  UnitLayer& unit = *state.units[layer];
  Compute& compute = state.compute();
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const float scale = state.gradient_scale();
  const DenseOperand x = rows_of(state, unit.source_layers[c], own.examples);
  Weights& weights = unit.connections[c].weights();
  const Index sources = weights.shape().sources;
  const DenseOperand d = unit.delta_rows(own.count());
  std::optional<Window> window;
  if (state.facts.is_convolution(layer)) window = state.facts.window(state.edge_of(layer, c));
  state.stage("weight update");
  const auto of_runs = [&] {
    return window && compute.kernels.convolution->gradients(*window, d, x, own.runs, scale,
                                                            unit.mine().count(), room.terms.view());
  };
  if (!of_runs())
    compute.executor.for_each(Index(own.runs.size()), [&](Index run, int) {
      const Range rows = own.runs[std::size_t(run)];
      const MatrixView<float> g{room.terms.view().row(run), unit.mine().count(), sources, sources};
      const DenseOperand of_run = d.row_range(rows.begin, rows.count());
      const DenseOperand x_run = x.row_range(rows.begin, rows.count());
      if (window)
        compute.kernels.convolution->gradient(*window, of_run, x_run, scale, g);
      else
        compute.kernels.dense->gradient(of_run, x_run, scale, g);
    });
  const auto terms = terms_of_owner(state, room, layer, sources, own);
  const Range owned = state.facts.mine(layer);
  const MatrixView<float> g{room.gradient.data(), owned.count(), sources, sources};
  state.stage("weight update");
  compute.kernels.run_sums->add_terms(terms, {g.data, g.size()});
  const int owner = state.facts.owner(state.edge_of(layer, c));
  if (weights.users > 1)
    compute.kernels.pointwise->add(g, state.shared[owner]->sum.view());
  else
    update_by_owner(state, owner, g);
}

void update_vector(State& state, int layer, UnitParameters& vector,
                   VectorView<const float> gradient) {
  const Range owned = state.facts.mine(layer);
  if (owned.count() > 0)
    vector.update(state.compute(), state.unit_step(), owned.begin,
                  gradient.range(owned.begin, owned.count()));
  const Index units = vector.value.size();
  state.collectives().all_gather_columns(MatrixView<float>{vector.value.data(), 1, units, units},
                                         state.facts.shares(layer));
}

// One row a place.
DenseOperand by_places(const DenseOperand& rows, const OwnRows& own) {
  const Index units = rows.cols() / own.places;
  DenseOperand all(MatrixView<const float>{rows.values.data, own.rows(), units, units});
  if (rows.bf16.data != nullptr) all.bf16 = {rows.bf16.data, own.rows(), units, units};
  return all;
}

}  // namespace

void UpdateByOwners::run(State& state) const {
  UnitLayer& unit = *state.units[layer];
  ExampleRoom& room = state.room<ExampleRoom>(layer);
  const OwnRows own = own_rows(state.facts, layer, state.examples());
  for (std::size_t c = 0; c < unit.connections.size(); ++c) update_weights(state, layer, c, own);
  state.stage("bias update");
  if (unit.descriptor().batch_normalization) {
    update_vector(state, layer, unit.norm_scale, unit.gradient.view());
    update_vector(state, layer, unit.norm_bias, unit.gradient2.view());
  }
  const VectorView<const FixedSum> sums =
      sum_columns(state, room, own, kSumBiases, by_places(unit.delta_rows(own.count()), own));
  state.stage("bias update");
  state.kernels().run_sums->to_float(sums, double(state.gradient_scale()), unit.gradient.view());
  update_vector(state, layer, unit.bias, unit.gradient.view());
}

}  // namespace norn::step
