// SPDX-License-Identifier: Apache-2.0
// What factored output layers hold, what a batch's targets say to them, and their outputs.
#include "src/step/layers/factored.h"

#include "norn/base/error.h"
#include "src/step/ops/output.h"
#include "src/step/program.h"

#include <algorithm>

#include <fmt/format.h>

namespace norn::step {
namespace {

constexpr const char* kTargets = "stored targets";
constexpr const char* kSums = "sum stored targets";

template <typename T>
void grow(Buffer<T>& buffer, Index count, Memory& memory) {
  if (buffer.size() < count) buffer = Buffer<T>(count + count / 2, memory);
}

void read_progress(FactoredRoom& room) {
  if (room.knows_progress) return;
  double progress[2];
  room.progress.read(progress, 2);
  room.has_begun = progress[0] != 0.0;
  room.steps = Index(progress[1]);
  room.knows_progress = true;
}

void begin_factors(State& state, int layer) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  read_progress(room);
  if (room.has_begun) return;
  const double progress[2] = {1.0, 0.0};
  room.progress.write(progress, 2);
  room.has_begun = true;
  room.steps = 0;
  state.kernels().factored->set_identity(room.u.view());
  state.kernels().factored->set_identity(room.inverse.view());
  room.mean.fill_zero();
  room.curvature.fill_zero();
  sum_gram(state, layer);
}

}  // namespace

void reduce_sums(State& state, MatrixView<FixedSum> sums) {
  if (state.is_alone()) return;
  state.stage(kSums);
  state.collectives().all_reduce_sum({reinterpret_cast<std::int64_t*>(sums.data),
                                      FixedSum::kWords * std::size_t(sums.rows * sums.stride)});
}

FactoredRoom::FactoredRoom(const StepFacts& facts, int layer) {
  using enum Purpose;
  const int edge = facts.matrices(layer)[0];
  const Index width = facts.layer(facts.edge(edge).source).units() + 1;
  const Index batch = facts.batch(), units = facts.units(layer);
  const Layout whole = Layout::whole;
  const char* factors = "factors of weights";
  rows = {factors, state, units, width - 1};
  rows.item = "factorRows";
  last = {factors, state, units};
  last.item = "factorLast";
  const auto small = [&](HeldMatrix<double>& array, const char* item) {
    array = {factors, state, width, width, whole};
    array.saved_as(item);
  };
  small(u, "factorU");
  small(inverse, "factorInverse");
  small(gram, "factorRowGram");
  const bool is_newton = facts.layer(layer).factored.rule == FactoredRule::newton;
  const bool is_wide = facts.is_wide_batch(layer);
  if (is_newton) small(mean, "factorMean");
  if (is_newton && !is_wide) small(curvature, "factorCurvature");
  progress = {factors, state, 2, 1, whole};
  progress.saved_as("factorProgress");
  const char* use = "a step of factors";
  const auto declare = [&](Index array_rows, Index cols, auto&... arrays) {
    ((arrays = {use, working, array_rows, cols, whole}), ...);
  };
  declare(batch, width, h, projected, entry_delta, factor_delta, delta, unit_step, entry_sums);
  declare(batch, width - 1, sent);
  declare(width, width, change, gram_sums);
  if (is_wide) {
    declare(width, width, covariance, after, solved_before, solved_after);
    if (is_newton) declare(width, width, before);
  } else {
    declare(batch, width, step_rows);
    declare(batch, batch, coupling);
    if (is_newton) declare(batch, batch, own_coupling);
  }
  declare(batch, 1, row_costs);
  declare(3, 1, verdicts);
}

void FactoredRoom::backward(const StepFacts&, int layer, OpList& ops) {
  ops.add(FactoredEntries{layer, true});
  ops.add(FactoredUpdate{layer});
}

void FactoredRoom::outputs(const StepFacts&, int layer, OpList& ops) {
  ops.add(FactoredValues{layer});
}

void FactoredRoom::cost(const StepFacts&, int layer, bool visits, OpList& ops) {
  ops.add(FactoredEntries{layer, false});
  ops.add(FactoredCost{layer, visits});
}

FactorView<float> factors(State& state, int layer, Range units) {
  UnitLayer& unit = *state.units[layer];
  const Index first = units.begin - state.facts.mine(layer).begin;
  return {unit.connections[0].weights().floats_of(units),
          unit.bias.value.view().range(first, units.count())};
}

void factored_columns(State& state, int layer, Range columns, MatrixView<float> w) {
  forget_progress(state);
  begin_factors(state, layer);
  const FactorView<float> v = factors(state, layer, state.facts.mine(layer));
  const MatrixView<double> u = state.room<FactoredRoom>(layer).u.view();
  Memory& memory = state.compute().memory;
  if (memory.is_host()) {
    state.kernels().factored->product(v, u, columns, w);
    return;
  }
  Matrix<float> there(w.rows, w.cols, memory);
  state.kernels().factored->product(v, u, columns, there.view());
  const auto floats = [](Index count) { return std::size_t(count) * sizeof(float); };
  memory.read_rows(there.view().data, floats(w.cols), w.data, floats(w.stride), floats(w.cols),
                   std::size_t(w.rows));
}

void restart_factors(State& state, int layer) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  room.progress.fill_zero();
  room.knows_progress = false;
}

void forget_progress(State& state) {
  for (int layer : state.facts.order())
    if (state.facts.is_factored(layer)) state.room<FactoredRoom>(layer).knows_progress = false;
}

void sum_gram(State& state, int layer) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  room.gram_sums.fill_zero();
  const MatrixView<FixedSum> sums = room.gram_sums.view();
  const Range blocks = state.facts.own_blocks(layer);
  for (Index b = blocks.begin; b < blocks.end; ++b)
    state.kernels().factored->add_gram(factors(state, layer, state.facts.partition(layer).units(b)),
                                       sums);
  reduce_sums(state, sums);
  state.kernels().factored->add_sums(sums, Existing::overwrite, room.gram.view());
}

void project_source(State& state, int layer) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  FactoredKernels& kernels = *state.kernels().factored;
  const MatrixView<double> h = room.h.first_rows(state.examples());
  const int source = state.units[layer]->source_layers[0];
  const DenseOperand x = state.output_of(source).dense;
  kernels.set_source(state.facts.is_hidden(source) ? x : DenseOperand(x.values), h);
  using As = FactoredKernels::As;
  kernels.multiply(1.0, h, As::it_is, room.u.view(), As::transposed, Existing::overwrite,
                   room.projected.first_rows(state.examples()));
}

namespace {

void check_weights(const State& state, int layer) {
  const HostBatch* batch = state.now.batch->of_layer[std::size_t(layer)];
  if (!batch) return;
  for (std::size_t e = 0; e < batch->weight.size(); ++e)
    if (batch->weight[e] < 0.0f)
      throw DataError(fmt::format(
          "layer \"{}\": example {} weighs {}, and Factored needs weights of at least 0; change "
          "the data set, or remove \"Factored\"",
          state.facts.layer(layer).name, batch->example[e], batch->weight[e]));
}

}  // namespace

void prepare_factors(State& state, int layer) {
  check_weights(state, layer);
  begin_factors(state, layer);
}

void list_targets(State& state, int layer) {
  const TargetView target = target_view(state, layer);
  require(target.is_sparse, "Network: targets of a factored layer are sparse; make_graph() tells");
  const Kernels& kernels = state.kernels();
  FactoredKernels& family =
      kernels.prefetch_factored ? *kernels.prefetch_factored : *kernels.factored;
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  room.turn = 1 - room.turn;
  family.list(target.sparse, state.facts.mine(layer), room.targets());
}

VectorView<const float> example_weights(State& state, int layer) {
  return target_view(state, layer).weight;
}

EntryRule entry_rule(State& state, int layer) {
  const TargetView target = target_view(state, layer);
  const NetworkDescriptor& network = state.network();
  EntryRule rule{double(network.boost_one), double(network.boost_zero), 0.0, target.weight.data};
  if (target.ignore_absent) {
    rule.zero = 0.0;
    rule.ignored = 1.0;
  }
  return rule;
}

void FactoredEntries::run(State& state) const {
  state.stage(kTargets);
  project_source(state, layer);
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  FactoredKernels& kernels = *state.kernels().factored;
  const TargetLists& lists = room.targets();
  grow(room.entry_r, lists.entries, state.compute().memory);
  grow(room.entry_costs, lists.entries, state.compute().memory);
  MatrixView<FixedSum> sums;
  if (learns) sums = room.entry_sums.first_rows(state.examples());
  kernels.read_entries(lists, factors(state, layer, state.facts.mine(layer)),
                       room.projected.first_rows(state.examples()), entry_rule(state, layer),
                       state.facts.partition(layer).block_width(), room.entry_r.view(),
                       room.entry_costs.view(), sums);
  if (learns) reduce_sums(state, sums);
}

void FactoredEntries::work(const StepFacts& facts, WorkList& list) const {
  const double width = double(facts.layer(facts.edge(facts.matrices(layer)[0]).source).units());
  const double entries = list.batch() * facts.entries(layer) / double(facts.ranks());
  list.add({.kind = Work::Kind::rows,
            .stage = kTargets,
            .flops = 4.0 * entries * width,
            .bytes = entries * width * kFloat,
            .gathered = entries * width * kFloat,
            .edge = facts.matrices(layer)[0]});
}

namespace {

double bytes_of_entry_sums(const StepFacts& facts, int layer) {
  const double width = double(facts.layer(facts.edge(facts.matrices(layer)[0]).source).units() + 1);
  return double(facts.batch()) * width * double(sizeof(FixedSum));
}

double bytes_of_pair_sums(const StepFacts& facts) {
  return double(facts.batch()) * double(facts.batch()) * double(sizeof(FixedSum));
}

}  // namespace

void FactoredEntries::traffic(const StepFacts& facts, TrafficList& list) const {
  list.all_reduce(kSums, bytes_of_entry_sums(facts, layer));
}

bool plans_pairs(const StepFacts& facts, int layer) {
  return !facts.on_gpu() && !facts.is_wide_batch(layer);
}

void FactoredUpdate::traffic(const StepFacts& facts, TrafficList& list) const {
  list.all_reduce(kSums, plans_pairs(facts, layer) ? bytes_of_pair_sums(facts)
                                                   : bytes_of_entry_sums(facts, layer));
}

void add_up_costs(State& state, int layer, bool all_units) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const std::span<double> costs = state.outcome().costs(layer);
  VectorView<const double> rows;
  if (all_units && state.facts.own_blocks(layer).begin == 0)
    rows = room.row_costs.view().range(0, state.examples());
  state.kernels().factored->add_up_costs(room.targets(), room.entry_costs.view(),
                                         state.facts.partition(layer).block_width(), rows,
                                         {costs.data(), Index(costs.size())});
}

void FactoredCost::run(State& state) const {
  state.stage("factored cost");
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  FactoredKernels& kernels = *state.kernels().factored;
  const MatrixView<double> h = room.projected.first_rows(state.examples());
  const MatrixView<double> delta = room.factor_delta.first_rows(state.examples());
  kernels.scale_rows(example_weights(state, layer), h);
  using As = FactoredKernels::As;
  kernels.multiply(1.0, h, As::it_is, room.gram.view(), As::it_is, Existing::overwrite, delta);
  kernels.add_to_rows(h, 1.0, {}, delta, room.row_costs.view());
  add_up_costs(state, layer, entry_rule(state, layer).ignored == 0.0);
  if (visits) FactoredValues{layer}.run(state);
}

void FactoredValues::run(State& state) const {
  project_source(state, layer);
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const MatrixView<double> projected = room.projected.first_rows(state.examples());
  const Index most = state.facts.shown_at_once(layer);
  for_own_blocks(state, layer, [&](Index, Range block, int lane) {
    for (Index first = block.begin; first < block.end; first += most) {
      const Range units{first, std::min(first + most, block.end)};
      const MatrixView<float> z{state.workspace[std::size_t(lane)].z.view().data, state.examples(),
                                units.count(), units.count()};
      state.kernels().factored->values(projected, factors(state, layer, units), z);
      (*state.now.visit)(units, z, lane);
    }
  });
}

namespace {

// V is read, and whatever may begin anew there.
void list_factors(int layer, TensorUses& uses) {
  FactoredRoom& room = uses.tensors.room<FactoredRoom>(layer);
  uses.reads_weights(uses.facts.matrices(layer)[0]);
  uses.reads_activations(uses.facts.edge(uses.facts.matrices(layer)[0]).source);
  uses.reads(uses.tensors.units[layer]->bias.value);
  uses.updates(room.u, room.inverse, room.gram, room.mean, room.curvature, room.progress);
  uses.writes(room.h, room.projected, room.gram_sums);
}

}  // namespace

void FactoredEntries::tensors(TensorUses& uses) const {
  FactoredRoom& room = uses.tensors.room<FactoredRoom>(layer);
  list_factors(layer, uses);
  if (learns) uses.writes(room.entry_sums);
}

void FactoredCost::tensors(TensorUses& uses) const {
  FactoredRoom& room = uses.tensors.room<FactoredRoom>(layer);
  list_factors(layer, uses);
  uses.updates(room.projected);
  uses.writes(room.factor_delta, room.row_costs);
  uses.updates_flags();
  if (visits)
    for (Workspace& lane : uses.tensors.workspace) uses.writes(lane.z);
}

void FactoredValues::tensors(TensorUses& uses) const {
  list_factors(layer, uses);
  for (Workspace& lane : uses.tensors.workspace) uses.writes(lane.z);
}

}  // namespace norn::step
