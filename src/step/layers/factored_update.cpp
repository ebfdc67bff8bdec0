// SPDX-License-Identifier: Apache-2.0
// A step of a factored output layer, in matrices of the batch and of the source's width. With D the
// deltas of all units, [B x N], and Q the preconditioner, K = H Q, a = rate / B and z DeltaBoost's
// factor of absent targets:
//
//   D = z H W' + R,   W becomes W - a D' K
//   U becomes U (1 - E), E = a z H' K;   V becomes V - a R' K U^-1 of the new U
//   K U^-1 of the new U is (1 - a z K H')^-1 K U^-1 of the old one, which then changes by
//   a z H' times that
//   W' W changes by A' K + K' A, A = -a P + a^2 Z K / 2, P = D W, Z = D D'
//
// With Newton the batch is part of its own curvature: Q^-1 = C + l + g a H' H, where g is at least
// DeltaBoost's larger factor. So K is (1 + g a k H')^-1 k with k = H (C + l)^-1, 1 - a z K H' is
// (1 + g a k H')^-1 (1 + (g - z) a k H'), and no step is too long for any unit.
//
// H and R are those of examples times the root of their weight.
#include "norn/base/error.h"
#include "src/step/layers/factored.h"
#include "src/step/program.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace norn::step {
namespace {

using As = FactoredKernels::As;
constexpr Existing kOverwrite = Existing::overwrite;
constexpr Existing kAdd = Existing::add;

constexpr double kMeanSteps = 100.0;    // the mean of H' H / B forgets as fast as that
constexpr double kLeastPivot = 0.0625;  // of 1 - E: below that a step nearly loses a direction
constexpr double kLargest = 8.0;        // of the inverse of U: V loses digits by that
constexpr double kWarmUp = 200.0;       // in the first steps C is of few batches, and damped more
constexpr double kNewtonRate = 0.02;    // unless the layer has its own
constexpr double kResolved = 1e5;       // products of float32 tell 1 from that many times as much
constexpr Index kRebuiltFolds = 10;     // W' W is summed anew at every so many folds

// The matrices of a batch of this many examples.
struct Batch {
  FactoredRoom& room;
  FactoredKernels& kernels;
  MatrixView<double> h, projected, k, p, entry_delta, unit_step, change, coupling, products;
  double step;  // a
  double zero;
};

Batch batch_of(State& state, int layer, double rate, double zero) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const Index examples = state.examples();
  const auto rows = [&](HeldMatrix<double>& array) { return array.first_rows(examples); };
  const auto square = [&](HeldMatrix<double>& array) {
    return MatrixView<double>{array.view().data, examples, examples, examples};
  };
  return {room,
          *state.kernels().factored,
          rows(room.h),
          rows(room.projected),
          rows(room.step_rows),
          rows(room.delta),
          rows(room.entry_delta),
          rows(room.unit_step),
          rows(room.change),
          square(room.coupling),
          square(room.products),
          rate / double(examples),
          zero};
}

void scale_by_weights(const float* weight, MatrixView<double> m) {
  for (Index e = 0; e < m.rows && weight; ++e) {
    const double root = std::sqrt(double(weight[e]));
    std::transform(m.row(e), m.row(e) + m.cols, m.row(e), [root](double x) { return root * x; });
  }
}

// P, and the cost of all units but for what stored targets change of it.
double find_delta(const Batch& b) {
  const MatrixView<const FixedSum> sums = b.room.entry_sums.first_rows(b.h.rows);
  for (Index e = 0; e < sums.rows; ++e)
    for (Index j = 0; j < sums.cols; ++j) b.change(e, j) = sums(e, j).value();
  b.kernels.multiply(1.0, b.change, As::it_is, b.room.u.view(), As::it_is, kOverwrite,
                     b.entry_delta);
  b.kernels.multiply(1.0, b.h, As::it_is, b.room.gram.view(), As::it_is, kOverwrite, b.p);
  double all_units = 0.0;
  for (Index e = 0; e < b.h.rows; ++e) {
    double sum = 0.0;
    for (Index j = 0; j < b.h.cols; ++j) {
      sum += b.h(e, j) * b.p(e, j);
      b.p(e, j) = b.zero * b.p(e, j) + b.entry_delta(e, j);
    }
    all_units += sum;
  }
  return all_units;
}

// Every rank gives the delta of its own units, which all have made with the same bits.
void send_delta(State& state, int layer, const float* weight, MatrixView<const double> p) {
  const int source = state.units[layer]->source_layers[0];
  if (!state.facts.is_hidden(source)) return;
  UnitLayer& unit = *state.units[source];
  Matrix<float> term(p.rows, p.cols - 1, state.compute().memory);
  for (Index e = 0; e < p.rows; ++e) {
    const double root = weight ? std::sqrt(double(weight[e])) : 1.0;
    for (Index j = 0; j < p.cols - 1; ++j) term.view()(e, j) = float(root * p(e, j));
  }
  Range mine = unit.mine();
  if (state.facts.by_example(source)) mine = {0, state.facts.settings().rank == 0 ? p.cols - 1 : 0};
  if (mine.count() > 0)
    unit.delta_sum.add(state.compute(), mine.begin, term.view().columns(mine.begin, mine.count()));
}

// (mean of H' H / B + damping times the mean of its diagonal)^-1, at every so many steps that it
// costs no more than a part of them. Of a short batch the mean takes a part, too. At first weights
// that fit small activations would be large, and hidden layers could not follow.
void refresh_curvature(const Batch& b, float damping, Index batch) {
  const MatrixView<double> mean = b.room.mean.view();
  const auto steps = Index(b.room.progress.data()[1]);
  const double share = double(b.h.rows) / double(batch) / std::min(double(steps) + 1.0, kMeanSteps);
  for (Index i = 0; i < mean.rows; ++i)
    for (Index j = 0; j < mean.cols; ++j) mean(i, j) *= 1.0 - share;
  b.kernels.multiply(share / double(b.h.rows), b.h, As::transposed, b.h, As::it_is, kAdd, mean);
  if (steps % ((mean.rows + batch - 1) / batch) != 0) return;
  const double warm = 1.0 + kWarmUp / (double(steps) + 1.0);
  double trace = 0.0;
  for (Index i = 0; i < mean.rows; ++i) trace += mean(i, i);
  // A batch of which all weights are 0 says nothing.
  const double added = trace > 0.0 ? double(damping) * warm * trace / double(mean.rows) : 1.0;
  Matrix<double> factor(mean.rows, mean.cols);
  const MatrixView<double> curvature = b.room.curvature.view();
  for (Index i = 0; i < mean.rows; ++i)
    for (Index j = 0; j < mean.cols; ++j) {
      factor.view()(i, j) = mean(i, j) + (i == j ? added : 0.0);
      curvature(i, j) = i == j ? 1.0 : 0.0;
    }
  b.kernels.factorize(factor.view());
  b.kernels.solve(factor.view(), curvature);
}

void find_step_rows(const Batch& b, bool newton) {
  if (newton)
    b.kernels.multiply(1.0, b.h, As::it_is, b.room.curvature.view(), As::it_is, kOverwrite, b.k);
  else
    for (Index e = 0; e < b.h.rows; ++e) std::copy_n(b.h.row(e), b.h.cols, b.k.row(e));
}

// 1 + factor m in place of m.
void add_to_one(double factor, MatrixView<double> m) {
  for (Index e = 0; e < m.rows; ++e)
    for (Index f = 0; f < m.cols; ++f) m(e, f) = (e == f ? 1.0 : 0.0) + factor * m(e, f);
}

// The largest eigenvalue of factor a K H', by a few steps of its power.
double largest_share(const Batch& b, double factor) {
  const Index n = b.h.rows;
  b.kernels.multiply(b.step * factor, b.k, As::it_is, b.h, As::transposed, kOverwrite, b.coupling);
  std::vector<double> x(std::size_t(n), 1.0), y(x);
  double size = 0.0;
  for (int i = 0; i < 30; ++i) {
    size = 0.0;
    for (Index r = 0; r < n; ++r) {
      y[std::size_t(r)] = 0.0;
      for (Index c = 0; c < n; ++c) y[std::size_t(r)] += b.coupling(r, c) * x[std::size_t(c)];
      size = std::max(size, std::abs(y[std::size_t(r)]));
    }
    for (Index r = 0; r < n; ++r) x[std::size_t(r)] = y[std::size_t(r)] / size;
  }
  return size;
}

// K, K by the inverse of the new U, U and its inverse. `own`: what the batch counts for in its own
// curvature, 0 with SGD. False where the step is too long.
bool change_small(const Batch& b, double own) {
  b.kernels.multiply(1.0, b.k, As::it_is, b.room.inverse.view(), As::it_is, kOverwrite,
                     b.unit_step);
  if (b.zero == 0.0 && own == 0.0) return true;
  b.kernels.multiply(b.step, b.k, As::it_is, b.h, As::transposed, kOverwrite, b.coupling);
  if (own > 0.0) {
    for (Index e = 0; e < b.h.rows; ++e)
      std::copy_n(b.coupling.row(e), b.h.rows, b.products.row(e));
    add_to_one(own, b.products);
    if (!(b.kernels.factorize(b.products) >= kLeastPivot)) return false;
    b.kernels.solve(b.products, b.k);
  }
  add_to_one(own - b.zero, b.coupling);
  if (!(b.kernels.factorize(b.coupling) >= kLeastPivot)) return false;
  b.kernels.solve(b.coupling, b.unit_step);
  if (b.zero == 0.0) return true;
  b.kernels.multiply(b.step * b.zero, b.h, As::transposed, b.unit_step, As::it_is, kAdd,
                     b.room.inverse.view());
  b.kernels.multiply(-b.step * b.zero, b.projected, As::transposed, b.k, As::it_is, kAdd,
                     b.room.u.view());
  return true;
}

void change_gram(const Batch& b) {
  const Index n = b.h.rows;
  const FixedSum* sums = b.room.overlap_sums.view().data;
  for (Index e = 0; e < n; ++e)
    for (Index f = 0; f <= e; ++f) b.products(e, f) = b.products(f, e) = sums[e * n + f].value();
  b.kernels.multiply(b.zero, b.h, As::it_is, b.p, As::transposed, kAdd, b.products);
  b.kernels.multiply(b.zero, b.entry_delta, As::it_is, b.h, As::transposed, kAdd, b.products);
  b.kernels.multiply(0.5 * b.step * b.step, b.products, As::it_is, b.k, As::it_is, kOverwrite,
                     b.change);
  for (Index e = 0; e < n; ++e)
    for (Index j = 0; j < b.p.cols; ++j) b.change(e, j) -= b.step * b.p(e, j);
  b.kernels.multiply(1.0, b.change, As::transposed, b.k, As::it_is, kAdd, b.room.gram.view());
  b.kernels.multiply(1.0, b.k, As::transposed, b.change, As::it_is, kAdd, b.room.gram.view());
}

// Where U has nearly lost a direction: long steps take half of it each.
bool needs_fold(MatrixView<const double> inverse) {
  double largest = 0.0;
  for (Index i = 0; i < inverse.rows; ++i)
    for (Index j = 0; j < inverse.cols; ++j) largest = std::max(largest, std::abs(inverse(i, j)));
  return largest > kLargest;
}

void fold(State& state, int layer) {
  const Range blocks = state.facts.own_blocks(layer);
  const MatrixView<double> u = state.room<FactoredRoom>(layer).u.view();
  state.compute().executor.for_each(blocks.count(), [&](Index i, int) {
    const Range units = state.facts.partition(layer).units(blocks.begin + i);
    state.kernels().factored->fold(u, factors(state, layer, units));
  });
  make_identity(u);
  make_identity(state.room<FactoredRoom>(layer).inverse.view());
}

// The schedule's share of the layer's own rate.
double rate_of(const State& state, const FactoredOutput& factored) {
  const double now = double(state.schedule.rate_at(state.now.position.step));
  const double alpha = double(state.network().training.rate);
  if (!factored.rate && factored.rule == FactoredRule::sgd) return now;
  const double own = factored.rate ? double(*factored.rate) : kNewtonRate;
  return alpha > 0.0 ? own * (now / alpha) : own;
}

DivergenceError too_long(const State& state, int layer, double rate, double share) {
  return DivergenceError(fmt::format(
      "layer \"{}\": a step at rate {:.3g} would take its weights to 0 or beyond in some "
      "direction, at step {} (epoch {}); lower \"Rate\" of Factored to {:.2g} or less",
      state.facts.layer(layer).name, rate, state.now.position.step, state.now.position.epoch + 1,
      0.5 * rate / share));
}

}  // namespace

void FactoredUpdate::run(State& state) const {
  state.stage("factored update");
  const FactoredOutput& factored = state.facts.layer(layer).factored;
  const Index every = state.facts.fold_every(layer);
  const std::int64_t next = state.now.position.step + 1;
  const EntryRule rule = entry_rule(state, layer);
  const bool newton = factored.rule == FactoredRule::newton;
  const double rate = rate_of(state, factored);
  // A short batch knows little of the curvature: its step is shorter.
  const double part = newton ? double(state.examples()) / double(state.facts.batch()) : 1.0;
  const Batch b = batch_of(state, layer, rate * part, rule.zero);
  scale_by_weights(rule.weight, b.h);
  scale_by_weights(rule.weight, b.projected);
  const double all_units = find_delta(b);
  sum_costs(state, layer, rule.ignored > 0.0 ? 0.0 : all_units);
  send_delta(state, layer, rule.weight, b.p);
  if (!std::isfinite(all_units)) return;  // which the cost tells
  if (newton) refresh_curvature(b, factored.damping, state.facts.batch());
  find_step_rows(b, newton);
  // Twice the factor of all units: a step leaves at least half of each direction of U.
  const double own = newton ? std::max(rule.one, 2.0 * rule.zero) : 0.0;
  if (!change_small(b, own))
    throw too_long(state, layer, rate,
                   newton ? largest_share(b, own) / kResolved : largest_share(b, rule.zero));
  change_gram(b);
  b.kernels.update_rows(b.room.lists, b.room.entry_r.view(), b.step, b.unit_step,
                        factors(state, layer, state.facts.mine(layer)));
  b.room.progress.data()[1] += 1.0;
  if (next % every == 0 || needs_fold(b.room.inverse.view())) fold(state, layer);
  if (next % (kRebuiltFolds * every) == 0) sum_gram(state, layer);
}

void FactoredUpdate::work(const StepFacts& facts, WorkList& list) const {
  const double width = double(facts.layer(facts.edge(facts.matrices(layer)[0]).source).units() + 1);
  const double batch = list.batch(), units = double(facts.units(layer));
  const double entries = batch * facts.entries(layer) / double(facts.ranks());
  const bool newton = facts.layer(layer).factored.rule == FactoredRule::newton;
  const double squares = newton ? 12.0 * width + 2.0 * batch / 3.0 : 10.0 * width + batch / 3.0;
  list.add({.stage = "factored update",
            .flops = 18.0 * batch * width * width + squares * batch * batch + 2.0 * entries * width,
            .bytes = 2.0 * entries * width * kFloat,
            .calls = 12.0});
  const double every = double(facts.fold_every(layer));
  list.add({.stage = "factored update",
            .flops = 2.0 * units * width * width / every,
            .bytes = 2.0 * units * width * kFloat / every,
            .calls = 1.0 / every});
}

void FactoredUpdate::tensors(TensorUses& uses) const {
  FactoredRoom& room = uses.tensors.room<FactoredRoom>(layer);
  const int edge = uses.facts.matrices(layer)[0];
  uses.updates_weights(edge);
  uses.adds_to_delta(uses.facts.edge(edge).source);
  uses.updates_flags();
  uses.reads(room.entry_sums, room.overlap_sums);
  uses.updates(uses.tensors.units[layer]->bias.value, room.u, room.inverse, room.gram, room.mean,
               room.curvature, room.progress, room.h, room.projected);
  uses.writes(room.step_rows, room.delta, room.entry_delta, room.unit_step, room.change,
              room.coupling, room.products, room.gram_sums);
}

}  // namespace norn::step
