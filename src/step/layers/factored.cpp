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

void reduce(State& state, MatrixView<FixedSum> sums) {
  if (state.is_alone()) return;
  state.stage(kSums);
  state.collectives().all_reduce_sum({reinterpret_cast<std::int64_t*>(sums.data),
                                      FixedSum::kWords * std::size_t(sums.rows * sums.stride)});
}

template <typename T>
void grow(Buffer<T>& buffer, Index count) {
  if (buffer.size() < count) buffer = Buffer<T>(count + count / 2);
}

void fill_zero(MatrixView<FixedSum> sums) {
  for (Index r = 0; r < sums.rows; ++r) std::fill_n(sums.row(r), sums.cols, FixedSum());
}

}  // namespace

void make_identity(MatrixView<double> m) {
  for (Index r = 0; r < m.rows; ++r)
    for (Index c = 0; c < m.cols; ++c) m(r, c) = r == c ? 1.0 : 0.0;
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
  small(gram, "factorGram");
  if (facts.layer(layer).factored.rule == FactoredRule::newton) {
    small(mean, "factorMean");
    small(curvature, "factorCurvature");
  }
  progress = {factors, state, 2, 1, whole};
  progress.saved_as("factorProgress");
  const char* use = "a step of factors";
  for (HeldMatrix<double>* array :
       {&h, &projected, &step_rows, &delta, &entry_delta, &unit_step, &change})
    *array = {use, working, batch, width, whole};
  for (HeldMatrix<double>* array : {&coupling, &products})
    *array = {use, working, batch, batch, whole};
  entry_sums = {use, working, batch, width, whole};
  overlap_sums = {use, working, batch, batch, whole};
  gram_sums = {use, working, width, width, whole};
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
  return {unit.connections[0].weights().values_of(units),
          unit.bias.value.view().range(first, units.count())};
}

void factored_columns(State& state, int layer, Range columns, MatrixView<float> w) {
  begin_factors(state, layer);
  state.kernels().factored->product(factors(state, layer, state.facts.mine(layer)),
                                    state.room<FactoredRoom>(layer).u.view(), columns, w);
}

void restart_factors(State& state, int layer) {
  state.room<FactoredRoom>(layer).progress.fill_zero();
}

void begin_factors(State& state, int layer) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  if (room.progress.data()[0] != 0.0) return;
  room.progress.data()[0] = 1.0;
  room.progress.data()[1] = 0.0;
  make_identity(room.u.view());
  make_identity(room.inverse.view());
  room.mean.fill_zero();
  room.curvature.fill_zero();
  sum_gram(state, layer);
}

void sum_gram(State& state, int layer) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const MatrixView<FixedSum> sums = room.gram_sums.view();
  fill_zero(sums);
  const Range blocks = state.facts.own_blocks(layer);
  for (Index b = blocks.begin; b < blocks.end; ++b)
    state.kernels().factored->add_gram(factors(state, layer, state.facts.partition(layer).units(b)),
                                       sums);
  reduce(state, sums);
  const MatrixView<double> gram = room.gram.view();
  for (Index r = 0; r < gram.rows; ++r)
    for (Index c = 0; c < gram.cols; ++c) gram(r, c) = sums(r, c).value();
}

void project_source(State& state, int layer) {
  begin_factors(state, layer);
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const MatrixView<const float> x =
      state.output_of(state.units[layer]->source_layers[0]).dense.values;
  const MatrixView<double> h = room.h.first_rows(state.examples());
  for (Index e = 0; e < h.rows; ++e) {
    std::transform(x.row(e), x.row(e) + x.cols, h.row(e), [](float y) { return double(y); });
    h(e, x.cols) = 1.0;
  }
  using As = FactoredKernels::As;
  state.kernels().factored->multiply(1.0, h, As::it_is, room.u.view(), As::transposed,
                                     Existing::overwrite,
                                     room.projected.first_rows(state.examples()));
}

namespace {

void check_weights(const State& state, int layer, VectorView<const float> weight) {
  for (Index e = 0; e < weight.size; ++e)
    if (weight[e] < 0.0f)
      throw DataError(fmt::format(
          "layer \"{}\": example {} weighs {}, and Factored needs weights of at least 0; change "
          "the data set, or remove \"Factored\"",
          state.facts.layer(layer).name,
          state.now.batch->of_layer[std::size_t(layer)]->example[std::size_t(e)], weight[e]));
}

}  // namespace

EntryRule entry_rule(State& state, int layer) {
  const TargetView target = target_view(state, layer);
  check_weights(state, layer, target.weight);
  require(target.is_sparse, "Network: targets of a factored layer are sparse; make_graph() tells");
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
  const Range mine = state.facts.mine(layer);
  const EntryRule rule = entry_rule(state, layer);
  kernels.list(target_view(state, layer).sparse, mine, room.lists);
  grow(room.entry_r, room.lists.entries);
  grow(room.entry_costs, room.lists.entries);
  MatrixView<FixedSum> sums;
  if (learns) sums = room.entry_sums.first_rows(state.examples());
  fill_zero(sums);
  kernels.read_entries(room.lists, factors(state, layer, mine),
                       room.projected.first_rows(state.examples()), rule,
                       state.facts.partition(layer).block_width(), room.entry_r.view(),
                       room.entry_costs.view(), sums);
  if (!learns) return;
  const Index examples = state.examples();
  const MatrixView<FixedSum> overlaps{room.overlap_sums.view().data, examples, examples, examples};
  fill_zero(overlaps);
  kernels.add_overlaps(room.lists, room.entry_r.view(), overlaps);
  reduce(state, sums);
  reduce(state, overlaps);
}

void FactoredEntries::work(const StepFacts& facts, WorkList& list) const {
  const double width = double(facts.layer(facts.edge(facts.matrices(layer)[0]).source).units());
  const double entries = list.batch() * facts.entries(layer) / double(facts.ranks());
  list.add({.stage = kTargets,
            .flops = 4.0 * entries * width,
            .bytes = entries * width * kFloat,
            .gathered = entries * width * kFloat});
}

void FactoredEntries::traffic(const StepFacts& facts, TrafficList& list) const {
  const double width = double(facts.layer(facts.edge(facts.matrices(layer)[0]).source).units() + 1);
  const double batch = double(facts.batch()), sum = double(sizeof(FixedSum));
  list.all_reduce(kSums, batch * width * sum);
  list.all_reduce(kSums, batch * batch * sum);
}

void sum_costs(State& state, int layer, double all_units) {
  const FactoredRoom& room = state.room<FactoredRoom>(layer);
  const TargetLists& lists = room.lists;
  const Range blocks = state.facts.own_blocks(layer);
  const BlockPartition& partition = state.facts.partition(layer);
  const Index first = state.facts.mine(layer).begin;
  const std::span<double> costs = state.outcome().costs(layer);
  Index place = 0;
  for (Index b = blocks.begin; b < blocks.end; ++b) {
    double sum = b == 0 ? 0.5 * all_units : 0.0;
    const Index end = partition.units(b).end - first;
    for (; place < lists.touched && lists.unit.data()[place] < end; ++place)
      for (Index k = lists.begin.data()[place]; k < lists.begin.data()[place + 1]; ++k)
        sum += room.entry_costs.data()[k];
    costs[std::size_t(b - blocks.begin)] = sum;
  }
}

void FactoredCost::run(State& state) const {
  state.stage("factored cost");
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const EntryRule rule = entry_rule(state, layer);
  const MatrixView<double> h = room.h.first_rows(state.examples());
  const MatrixView<double> hg = room.delta.first_rows(state.examples());
  using As = FactoredKernels::As;
  state.kernels().factored->multiply(1.0, h, As::it_is, room.gram.view(), As::it_is,
                                     Existing::overwrite, hg);
  double all_units = 0.0;
  for (Index e = 0; e < h.rows && rule.ignored == 0.0; ++e) {
    double sum = 0.0;
    for (Index j = 0; j < h.cols; ++j) sum += h(e, j) * hg(e, j);
    all_units += (rule.weight ? double(rule.weight[e]) : 1.0) * sum;
  }
  sum_costs(state, layer, all_units);
  if (visits) FactoredValues{layer}.run(state);
}

void FactoredValues::run(State& state) const {
  project_source(state, layer);
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const MatrixView<double> projected = room.projected.first_rows(state.examples());
  for_own_blocks(state, layer, [&](Index, Range units, int lane) {
    const MatrixView<float> z{state.workspace[std::size_t(lane)].z.view().data, state.examples(),
                              units.count(), units.count()};
    state.kernels().factored->values(projected, factors(state, layer, units), z);
    (*state.now.visit)(units, z, lane);
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
  if (learns) uses.writes(room.entry_sums, room.overlap_sums);
}

void FactoredCost::tensors(TensorUses& uses) const {
  FactoredRoom& room = uses.tensors.room<FactoredRoom>(layer);
  list_factors(layer, uses);
  uses.reads(room.h);
  uses.writes(room.delta);
  uses.updates_flags();
  if (visits)
    for (Workspace& lane : uses.tensors.workspace) uses.writes(lane.z);
}

void FactoredValues::tensors(TensorUses& uses) const {
  list_factors(layer, uses);
  for (Workspace& lane : uses.tensors.workspace) uses.writes(lane.z);
}

}  // namespace norn::step
