// SPDX-License-Identifier: Apache-2.0
// Layers whose units are computed from their sources' units alone.
#include "src/step/layers/pooling.h"

#include "src/step/layers/by_example.h"
#include "src/step/layers/example_edges.h"
#include "src/step/layers/own_examples.h"
#include "src/step/program.h"

#include <algorithm>
#include <utility>

namespace norn::step {
namespace {

constexpr Index kSums = 3;  // of a pair: a . b, |a|^2, |b|^2

bool compares(const StepFacts& facts, int layer) {
  return is_comparison(facts.layer(layer).function);
}

Index most_rows(const StepFacts& facts, int layer) {
  return facts.by_example(layer) ? facts.example_capacity() : facts.batch();
}

// The units that this rank computes.
Range own_units(const StepFacts& facts, int layer) {
  return facts.by_example(layer) ? Range{0, facts.layer(layer).units()} : facts.mine(layer);
}

// What a rank computes of a layer, and what it reads for that: all units of the own examples, or
// the own units of all examples. Two sources are compared by all of their units.
class Part {
 public:
  Part(State& state, int layer)
      : state_(state),
        layer_(layer),
        unit_(*state.units[layer]),
        units_(own_units(state.facts, layer)),
        own_(by_example() ? own_rows(state.facts, layer, state.examples()) : OwnRows{}) {
    for (int edge : state.facts.sources(layer)) sources_.push_back(source_of(edge));
  }

  void forward() {
    const DenseResult y = by_example() ? unit_.rows(rows()) : DenseResult(unit_.own(rows()));
    if (y.empty()) return;
    compares(state_.facts, layer_) ? compare(y.values) : kernels().forward(pooling(), sources_, y);
    if (!by_example())  // copies that a device's products read
      unit_.finish_forward(state_.compute(), rows(), state_.now.pass, state_.now.position);
  }

  void backward(std::size_t number) {
    const int edge = state_.facts.sources(layer_)[number];
    const int source = state_.facts.edge(edge).source;
    if (by_example()) {
      if (backward_through(number, source)) return;
      const MatrixView<float> dx = place_to_send(state_, edge, own_.examples);
      if (!dx.empty()) backward_rows(number, dx);
      return send(state_, edge, own_.examples);
    }
    if (units_.count() == 0) return;
    float* const place = state_.workspace[0].dx.view().data;
    const Index width = sources_[number].x.cols();
    const MatrixView<float> dx{place, rows(), width, width};
    DeltaSum& sum = state_.units[source]->delta_sum;
    if (!compares(state_.facts, layer_)) {
      kernels().backward(pooling(), sources_, number, delta(), dx, Existing::overwrite);
      return sum.add(state_.compute(), units_.begin, dx);
    }
    for (Index pair = 0; pair < units_.count(); ++pair)
      if (takes_part(number, pair)) {
        compare_backward(number, pair, dx, Existing::overwrite);
        sum.add(state_.compute(), 0, dx);
      }
  }

 private:
  void compare(MatrixView<float> y) {
    state_.room<PoolingRoom>(layer_).pair_sums.fill_zero();
    for (Index pair = 0; pair < units_.count(); ++pair) {
      const PairSums<FixedSum> sums = sums_of(pair);
      kernels().add_pair_sums(sources_[0], second(pair), sums);
      kernels().compare(similarity(), sums, y.columns(pair, 1));
    }
  }

  bool by_example() const { return state_.facts.by_example(layer_); }
  PoolingKernels& kernels() const { return *state_.kernels().pooling; }
  Index rows() const { return by_example() ? own_.count() : state_.examples(); }

  PoolingSource source_of(int edge) const {
    const int source = state_.facts.edge(edge).source;
    if (by_example()) return {state_.facts.window(edge), rows_of(state_, source, own_.examples)};
    MatrixView<const float> x = state_.output_of(source).dense.values;
    if (!compares(state_.facts, layer_)) x = x.columns(units_.begin, units_.count());
    Window all;
    all.channels = x.cols;
    return {all, x};
  }

  Pooling pooling() const {
    switch (state_.facts.layer(layer_).function) {
      case PoolingFunction::max:
        return MaxPooling{};
      case PoolingFunction::average:
        return AveragePooling{};
      case PoolingFunction::lrn:
        return state_.network().lrn;
      default:
        return Maxout{};
    }
  }
  Similarity similarity() const {
    return state_.facts.layer(layer_).function == PoolingFunction::cosine ? Similarity::cosine
                                                                          : Similarity::dot_product;
  }

  // Of an own pair, the unit of the layer with that number among its own.
  const PoolingSource& second(Index pair) const {
    return sources_[std::size_t(units_.begin + pair + 1)];
  }
  bool takes_part(std::size_t number, Index pair) const {
    return number == 0 || Index(number) == units_.begin + pair + 1;
  }
  PairSums<FixedSum> sums_of(Index pair) const {
    FixedSum* const sums = state_.room<PoolingRoom>(layer_).pair_sums.view().row(pair);
    const Index most = most_rows(state_.facts, layer_);
    const auto at = [&](Index i) { return VectorView<FixedSum>{sums + i * most, rows()}; };
    if (similarity() == Similarity::dot_product) return {at(0), {}, {}};
    return {at(0), at(1), at(2)};
  }

  // d cost / d activation, which the layer gives as they are.
  DenseOperand delta() const {
    return by_example() ? DenseOperand(unit_.delta_rows(rows())) : unit_.delta(rows());
  }
  void compare_backward(std::size_t number, Index pair, MatrixView<float> dx,
                        Existing existing) const {
    const PairSums<FixedSum> sums = sums_of(pair);
    const PoolingSource& first = sources_[0];
    const bool of_first = number == 0;
    kernels().compare_backward(similarity(), of_first ? sums : sums.swapped(),
                               delta().values.columns(pair, 1), of_first ? first : second(pair),
                               of_first ? second(pair) : first, dx, existing);
  }
  // To the source's delta behind its activation function, where nothing else stands in between.
  bool backward_through(std::size_t number, int of) const {
    const bool in_bf16 = state_.units[of]->settings().delta_in_bf16;
    if (!in_bf16 && !state_.facts.gets_whole_delta(of)) return false;
    if (own_.count() == 0) return in_bf16;
    UnitLayer& source = *state_.units[of];
    const UnitLayer::DeltaThrough to = source.delta_through(own_.count());
    if (to.has_slope)
      return source.set_final_delta(
          kernels().backward_through(pooling(), sources_, number, delta(), to.f, to.delta));
    kernels().backward(pooling(), sources_, number, delta(), to.delta, Existing::overwrite);
    return source.set_final_delta(true);
  }
  void backward_rows(std::size_t number, MatrixView<float> dx) const {
    if (!compares(state_.facts, layer_))
      return kernels().backward(pooling(), sources_, number, delta(), dx, Existing::overwrite);
    Existing existing = Existing::overwrite;
    for (Index pair = 0; pair < units_.count(); ++pair)
      if (takes_part(number, pair))
        compare_backward(number, pair, dx, std::exchange(existing, Existing::add));
  }

  State& state_;
  int layer_;
  UnitLayer& unit_;
  Range units_;
  OwnRows own_;
  std::vector<PoolingSource> sources_;
};

void list_sources(TensorUses& uses, int layer) {
  for (int edge : uses.facts.sources(layer)) {
    const int source = uses.facts.edge(edge).source;
    if (uses.facts.by_example(layer) && uses.facts.by_example(source) && uses.tensors.units[source])
      uses.reads(uses.tensors.units[source]->activations, uses.tensors.units[source]->bf16_rows);
    else
      uses.reads_activations(source);
  }
}

// Of the sources and the layer itself, on this rank: bytes that are moved, and responses, of which
// each has `powers` to raise.
Work work_of(const StepFacts& facts, int layer, const char* stage, double times, double powers) {
  const auto own = double(own_units(facts, layer).count());
  double units = own;
  for (int edge : facts.sources(layer))
    units += double(facts.layer(facts.edge(edge).source).units());
  const auto rows =
      double(facts.by_example(layer) ? facts.own_examples(facts.batch()).count() : facts.batch());
  const bool in_bf16 = facts.rows_in_bf16(layer);
  Work work{.stage = stage, .bytes = times * rows * units * (in_bf16 ? kBf16 : kFloat)};
  if (facts.layer(layer).function == PoolingFunction::lrn) work.evaluated = powers * rows * own;
  return work;
}

}  // namespace

PoolingRoom::PoolingRoom(const StepFacts& facts, int layer) {
  if (compares(facts, layer))
    pair_sums = {"sums of pairs", Purpose::working, own_units(facts, layer).count(),
                 kSums * most_rows(facts, layer),
                 facts.by_example(layer) ? Layout::by_example : Layout::by_unit};
}

void PoolingRoom::forward(const StepFacts&, int layer, bool, OpList& ops) {
  ops.add(PoolForward{layer});
}

void PoolingRoom::backward(const StepFacts& facts, int layer, OpList& ops) {
  facts.by_example(layer) ? ops.add(ExampleDelta{layer}) : ops.add(HiddenDelta{layer});
  if (std::ranges::any_of(facts.sources(layer), [&](int edge) { return sends_delta(facts, edge); }))
    ops.add(PoolBackward{layer});
}

void PoolForward::run(State& state) const {
  state.stage("pooling");
  Part(state, layer).forward();
}

void PoolForward::tensors(TensorUses& uses) const {
  UnitLayer& unit = *uses.tensors.units[layer];
  list_sources(uses, layer);
  uses.writes(unit.activations, unit.bf16_rows, unit.bf16_activations, unit.transposed_activations,
              uses.tensors.room<PoolingRoom>(layer).pair_sums);
}

void PoolForward::work(const StepFacts& facts, WorkList& list) const {
  list.add(work_of(facts, layer, "pooling", 1.0, 1.0));
}

void PoolBackward::run(State& state) const {
  Part part(state, layer);
  const std::vector<int>& sources = state.facts.sources(layer);
  for (std::size_t number = 0; number < sources.size(); ++number) {
    state.stage("deltas of pooling");
    if (sends_delta(state.facts, sources[number])) part.backward(number);
  }
}

void PoolBackward::tensors(TensorUses& uses) const {
  list_sources(uses, layer);
  UnitLayer& unit = *uses.tensors.units[layer];
  uses.reads(unit.deltas, uses.tensors.room<PoolingRoom>(layer).pair_sums);
  if (uses.facts.delta_in_bf16(layer)) uses.reads(unit.bf16_deltas);
  uses.writes(uses.tensors.workspace[0].dx);
  for (int edge : uses.facts.sources(layer)) {
    if (!sends_delta(uses.facts, edge)) continue;
    const int source = uses.facts.edge(edge).source;
    if (uses.facts.gets_whole_delta(source) || uses.facts.delta_in_bf16(source))
      uses.writes(uses.tensors.units[source]->bf16_deltas);
    if (!uses.facts.by_example(layer) || !uses.facts.by_example(source))
      uses.adds_to_delta(source);
    else if (uses.facts.sends_first(edge))
      uses.writes(uses.tensors.units[source]->deltas);
    else
      uses.updates(uses.tensors.units[source]->deltas);
  }
}

void PoolBackward::work(const StepFacts& facts, WorkList& list) const {
  double sent = 0.0;
  for (int edge : facts.sources(layer)) sent += sends_delta(facts, edge) ? 1.0 : 0.0;
  constexpr double kPowers = 4.0;  // with the quotient and the shares of neighbours
  list.add(work_of(facts, layer, "deltas of pooling", sent, kPowers));
}

}  // namespace norn::step
