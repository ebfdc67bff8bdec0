// SPDX-License-Identifier: Apache-2.0
// A step of a factored output layer, in matrices of the batch and of the source's width. With D the
// deltas of all units, [B x N], and Q the preconditioner, K = H Q, a = rate / B and z DeltaBoost's
// factor of absent targets:
//
//   D = z H W' + R,   W becomes W - a D' K
//   U becomes U (1 - E), E = a z H' K;   V becomes V - R' S, S = a K U^-1 of the new U
//   D V = z (H U') V' V + R V, and D W is that times U
//   V' V changes by - (T' S + S' T) / 2, where T = R V of the old V and of the new one, which is
//   2 R V - R R' S of the old one; with L + L' = R R', T may be 2 (R V - L S) as well
//
// With Newton the batch is part of its own curvature: Q^-1 = C + l + g a H' H, where g is at least
// DeltaBoost's larger factor. Q^-1 (1 - E) then is C + l + (g - z) a H' H, and no step is too long
// for any unit. With gradient descent C + l is 1, and g is 0.
//
// A wide batch, of nearly as many examples as the source has units or more, makes these [D x D]
// matrices and factorises them. Of a narrow one, with k = H (C + l)^-1,
//   K = (1 + g a k H')^-1 k,   K U^-1 of the new U is (1 + (g - z) a k H')^-1 k U^-1 of the old one
// are all that it needs, and the factors are [B x B].
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
using Operands = FactoredKernels::Operands;
constexpr Existing kOverwrite = Existing::overwrite;
constexpr Existing kAdd = Existing::add;

constexpr const char* kUpdate = "factored update";
constexpr const char* kFold = "fold factors";

constexpr double kMeanSteps = 100.0;    // the mean of H' H / B forgets as fast as that
constexpr double kLeastPivot = 0.0625;  // of 1 - E: below that a step nearly loses a direction
constexpr double kPositive = 1e-300;
constexpr double kLargest = 8.0;      // of the inverse of U: V loses digits by that
constexpr double kWarmUp = 200.0;     // in the first steps C is of few batches, and damped more
constexpr double kNewtonRate = 0.02;  // unless the layer has its own

// The matrices of a batch of this many examples.
struct Batch {
  FactoredRoom& room;
  FactoredKernels& kernels;
  MatrixView<double> h, projected, entry_delta, factor_delta, delta, unit_step;
  MatrixView<FixedSum> entry_sums;
  VectorView<double> least;
  double* too_long;
  Index planned;  // examples of a batch that is not short
  double step;    // a
  double zero;
  double own;  // g
  double damping;
  bool newton;

  VectorView<double> pivots(Index count) const { return least.range(0, count); }
  double* fold_is_due() const { return least.data + 2; }
  // What is as large as the batch, without gaps.
  MatrixView<double> square(HeldMatrix<double>& array) const {
    return {array.view().data, h.rows, h.rows, h.rows};
  }
};

Batch batch_of(State& state, int layer, double rate, const EntryRule& rule) {
  FactoredRoom& room = state.room<FactoredRoom>(layer);
  const FactoredOutput& factored = state.facts.layer(layer).factored;
  const Index examples = state.examples();
  const bool newton = factored.rule == FactoredRule::newton;
  // A short batch knows little of the curvature: its step is shorter.
  const double part = newton ? double(examples) / double(state.facts.batch()) : 1.0;
  const auto rows = [&](auto& array) { return array.first_rows(examples); };
  const double most = std::max(rule.one, 2.0 * rule.zero);
  return {.room = room,
          .kernels = *state.kernels().factored,
          .h = rows(room.h),
          .projected = rows(room.projected),
          .entry_delta = rows(room.entry_delta),
          .factor_delta = rows(room.factor_delta),
          .delta = rows(room.delta),
          .unit_step = rows(room.unit_step),
          .entry_sums = rows(room.entry_sums),
          .least = room.verdicts.view(),
          .too_long = state.outcome().too_long(layer),
          .planned = state.facts.batch(),
          .step = rate * part / double(examples),
          .zero = rule.zero,
          // Twice the factor of all units: a step leaves at least half of each direction of U.
          .own = newton ? most : 0.0,
          .damping = double(factored.damping),
          .newton = newton};
}

// D V and D W, and the cost of all units but for what stored targets change of it.
void find_delta(const Batch& b) {
  b.kernels.add_sums(b.entry_sums, kOverwrite, b.entry_delta);
  b.kernels.multiply(1.0, b.projected, As::it_is, b.room.gram.view(), As::it_is, kOverwrite,
                     b.factor_delta);
  b.kernels.add_to_rows(b.projected, b.zero, b.entry_delta, b.factor_delta,
                        b.room.row_costs.view());
  b.kernels.multiply(1.0, b.factor_delta, As::it_is, b.room.u.view(), As::it_is, kOverwrite,
                     b.delta);
}

// Every rank gives the delta of its own units, which all have made with the same bits.
void send_delta(State& state, int layer, VectorView<const float> weight,
                MatrixView<const double> delta) {
  const int source = state.units[layer]->source_layers[0];
  if (!state.facts.is_hidden(source)) return;
  UnitLayer& unit = *state.units[source];
  MatrixView<float> sent = state.room<FactoredRoom>(layer).sent.first_rows(state.examples());
  Range mine = unit.mine();
  if (state.facts.by_example(source)) mine = {0, state.facts.settings().rank == 0 ? sent.cols : 0};
  // A sum without accumulators has room for whole terms alone.
  if (mine.count() == sent.cols)
    if (const MatrixView<float> slot = unit.delta_sum.next_slot(state.compute()); !slot.empty())
      sent = slot;
  state.kernels().factored->send(delta, weight, sent);
  if (mine.count() > 0)
    unit.delta_sum.add(state.compute(), mine.begin, sent.columns(mine.begin, mine.count()));
}

// Of a short batch the mean takes a part, too.
double share_of_mean(const Batch& b) {
  return double(b.h.rows) / double(b.planned) / std::min(double(b.room.steps) + 1.0, kMeanSteps);
}

// C + l. At first weights that fit small activations would be large, and hidden layers could not
// follow. A batch of which all weights are 0 says nothing.
DampedMatrix curvature_of(const Batch& b) {
  if (!b.newton) return {};
  return {b.room.mean.view(), b.damping * (1.0 + kWarmUp / (double(b.room.steps) + 1.0))};
}

// S / a in unit_step, U and its inverse, by [D x D] factors. X = U^-1:
//   Q H' H is solved from Q^-1; (1 - E)^-1 X, times Q from the left, from Q^-1 (1 - E)
void change_by_width(const Batch& b) {
  FactoredRoom& room = b.room;
  const MatrixView<double> hh = room.covariance.view(), after = room.after.view();
  const MatrixView<double> before = room.before.view(), solved = room.solved_after.view();
  b.kernels.multiply(1.0, b.h, As::transposed, b.h, As::it_is, kOverwrite, hh, Operands::float64);
  if (b.newton) {
    const double share = share_of_mean(b);
    b.kernels.combine(1.0 - share, room.mean.view(), share / double(b.h.rows), hh);
    b.kernels.damp(curvature_of(b), b.own * b.step, hh, before);
  }
  b.kernels.damp(curvature_of(b), (b.own - b.zero) * b.step, hh, after);
  if (b.newton)
    b.kernels.factorize(after, before, b.pivots(2));
  else
    b.kernels.factorize(after, {}, b.pivots(1));
  // Pivots of 1 - E with gradient descent. Newton's matrices are positive, whatever the step.
  b.kernels.judge(b.pivots(b.newton ? 2 : 1), b.newton ? kPositive : kLeastPivot,
                  b.step * std::max(b.own, b.zero), b.h, b.too_long);
  b.kernels.solve(after, room.inverse.view(), solved);
  b.kernels.multiply(1.0, b.h, As::it_is, solved, As::it_is, kOverwrite, b.unit_step);
  if (b.zero == 0.0) return;
  b.kernels.multiply(b.step * b.zero, hh, As::it_is, solved, As::it_is, kAdd, room.inverse.view());
  MatrixView<double> shrink = hh;
  if (b.newton) {
    shrink = room.solved_before.view();
    b.kernels.solve(before, hh, shrink);
  }
  b.kernels.multiply(1.0, room.u.view(), As::it_is, shrink, As::transposed, kOverwrite,
                     room.change.view());
  b.kernels.combine(1.0, room.u.view(), -b.step * b.zero, room.change.view());
}

// (C + l)^-1, at every so many steps that it costs no more than a part of them.
void refresh_curvature(const Batch& b) {
  const MatrixView<double> mean = b.room.mean.view(), curvature = b.room.curvature.view();
  const double share = share_of_mean(b);
  b.kernels.combine(1.0 - share, mean, 0.0, mean);
  b.kernels.multiply(share / double(b.h.rows), b.h, As::transposed, b.h, As::it_is, kAdd, mean);
  if (b.room.steps % StepFacts::curvature_every(mean.rows, b.planned) != 0) return;
  const MatrixView<double> factor = b.room.change.view();
  b.kernels.damp(curvature_of(b), 0.0, {}, factor);
  b.kernels.factorize(factor, {}, b.pivots(1));
  b.kernels.invert(factor, curvature);
}

// The same by [B x B] factors.
void change_by_batch(const Batch& b) {
  FactoredRoom& room = b.room;
  const MatrixView<double> k = room.step_rows.first_rows(b.h.rows),
                           coupling = b.square(room.coupling);
  Operands operands = Operands::float64;
  if (b.newton) {
    refresh_curvature(b);
    operands = b.kernels.operands_of(b.own * b.step, b.h, room.curvature.view());
    b.kernels.multiply(1.0, b.h, As::it_is, room.curvature.view(), As::it_is, kOverwrite, k,
                       operands);
  } else {
    b.kernels.combine(0.0, k, 1.0, b.h);
  }
  b.kernels.multiply(1.0, k, As::it_is, room.inverse.view(), As::it_is, kOverwrite, b.unit_step);
  if (b.zero == 0.0 && !b.newton) return;
  b.kernels.multiply(b.step, k, As::it_is, b.h, As::transposed, kOverwrite, coupling, operands);
  const MatrixView<double> own = b.newton ? b.square(room.own_coupling) : MatrixView<double>();
  if (b.newton) b.kernels.damp({}, b.own, coupling, own);
  b.kernels.damp({}, b.own - b.zero, coupling, coupling);
  b.kernels.factorize(coupling, own, b.pivots(b.newton ? 2 : 1));
  b.kernels.judge(b.pivots(b.newton ? 2 : 1), kLeastPivot, b.step * std::max(b.own, b.zero), b.h,
                  b.too_long);
  b.kernels.solve(coupling, b.unit_step, b.unit_step, operands);
  if (b.newton) b.kernels.solve(own, k, k, operands);
  if (b.zero == 0.0) return;
  b.kernels.multiply(b.step * b.zero, b.h, As::transposed, b.unit_step, As::it_is, kAdd,
                     room.inverse.view());
  b.kernels.multiply(-b.step * b.zero, b.projected, As::transposed, k, As::it_is, kAdd,
                     room.u.view());
}

// Rows of V, and V' V by what stored targets say of them before and after.
void change_rows(State& state, int layer, const Batch& b) {
  FactoredRoom& room = b.room;
  const FactorView<float> v = factors(state, layer, state.facts.mine(layer));
  const Index block_width = state.facts.partition(layer).block_width();
  const VectorView<const double> r = room.entry_r.view();
  b.kernels.update_rows(room.targets(), r, b.step, b.unit_step, v);
  const MatrixView<FixedSum> pairs{b.entry_sums.data, b.h.rows, b.h.rows, b.h.rows};
  const bool by_pairs = !state.facts.is_wide_batch(layer) &&
                        b.kernels.sum_pairs(room.targets(), r, block_width, pairs);
  if (!by_pairs) b.kernels.sum_rows(room.targets(), v, r, block_width, b.entry_sums);
  reduce_sums(state, by_pairs ? pairs : b.entry_sums);
  state.stage(kUpdate);
  if (by_pairs) {
    const MatrixView<double> half = b.square(room.coupling);
    b.kernels.add_sums(pairs, kOverwrite, half);
    b.kernels.multiply(-b.step, half, As::it_is, b.unit_step, As::it_is, kAdd, b.entry_delta);
  } else {
    b.kernels.add_sums(b.entry_sums, kAdd, b.entry_delta);
  }
  b.kernels.multiply(1.0, b.entry_delta, As::transposed, b.unit_step, As::it_is, kOverwrite,
                     room.change.view());
  b.kernels.add_symmetric((by_pairs ? -1.0 : -0.5) * b.step, room.change.view(), room.gram.view());
}

// U goes into V at fixed steps, and where U has nearly lost a direction: long steps take half of it
// each. The device finds that out, and passes over the rest where it is not so.
void fold(State& state, int layer, const Batch& b, std::int64_t next) {
  state.stage(kFold);
  FactoredRoom& room = b.room;
  const bool now = next % state.facts.fold_every(layer) == 0;
  b.kernels.look(room.inverse.view(), now ? -1.0 : kLargest, b.fold_is_due());
  b.kernels.fold(room.u.view(), state.facts.partition(layer).block_width(), b.fold_is_due(),
                 factors(state, layer, state.facts.mine(layer)));
  b.kernels.fold_gram(b.fold_is_due(), room.u.view(), room.inverse.view(), room.gram.view());
  if (next % state.facts.gram_every(layer) == 0) sum_gram(state, layer);
}

// The schedule's share of the layer's own rate.
double rate_of(const State& state, const FactoredOutput& factored, std::int64_t step) {
  const double now = double(state.schedule.rate_at(step));
  const double alpha = double(state.network().training.rate);
  if (!factored.rate && factored.rule == FactoredRule::sgd) return now;
  const double own = factored.rate ? double(*factored.rate) : kNewtonRate;
  return alpha > 0.0 ? own * (now / alpha) : own;
}

}  // namespace

DivergenceError too_long_step(const State& state, int layer, const StepPosition& position,
                              double share) {
  const double rate = rate_of(state, state.facts.layer(layer).factored, position.step);
  return DivergenceError(fmt::format(
      "layer \"{}\": a step at rate {:.3g} would take its weights to 0 or beyond in some "
      "direction, at step {} (epoch {}); lower \"Rate\" of Factored to {:.2g} or less",
      state.facts.layer(layer).name, rate, position.step, position.epoch + 1, 0.5 * rate / share));
}

void FactoredUpdate::run(State& state) const {
  state.stage(kUpdate);
  const EntryRule rule = entry_rule(state, layer);
  const VectorView<const float> weight = example_weights(state, layer);
  const std::int64_t step = state.now.position.step;
  const Batch b =
      batch_of(state, layer, rate_of(state, state.facts.layer(layer).factored, step), rule);
  b.kernels.scale_rows(weight, b.h);
  b.kernels.scale_rows(weight, b.projected);
  find_delta(b);
  add_up_costs(state, layer, rule.ignored == 0.0);
  send_delta(state, layer, weight, b.delta);
  if (state.facts.is_wide_batch(layer))
    change_by_width(b);
  else
    change_by_batch(b);
  change_rows(state, layer, b);
  fold(state, layer, b, step + 1);
  ++b.room.steps;
  b.kernels.store(double(b.room.steps), b.room.progress.data() + 1);
  state.stage("other");
}

void FactoredUpdate::work(const StepFacts& facts, WorkList& list) const {
  const double width = double(facts.layer(facts.edge(facts.matrices(layer)[0]).source).units() + 1);
  const double batch = list.batch(), units = double(facts.units(layer));
  const double entries = batch * facts.entries(layer) / double(facts.ranks());
  const bool newton = facts.layer(layer).factored.rule == FactoredRule::newton;
  const double square = width * width;
  const bool by_pairs = plans_pairs(facts, layer);
  double flops = 6.0 * batch * square + (by_pairs ? 2.0 * batch * batch * width : 0.0);
  if (facts.is_wide_batch(layer))
    flops += 4.0 * batch * square + (newton ? 8.7 : 6.4) * width * square;
  else
    flops += (newton ? 12.3 : 8.0) * batch * square +
             (newton ? 6.0 * width + 2.0 * batch / 3.0 : 4.0 * width + batch / 3.0) * batch * batch;
  const int edge = facts.matrices(layer)[0];
  list.add({.kind = Work::Kind::product,
            .stage = kUpdate,
            .flops = flops,
            .bytes = 12.0 * batch * width * double(sizeof(double)),
            .calls = facts.on_gpu() ? 30.0 : 12.0,
            .edge = edge});
  const double passes = by_pairs ? 1.0 : 2.0;
  list.add({.kind = Work::Kind::rows,
            .stage = kUpdate,
            .flops = passes * 2.0 * entries * width,
            .bytes = passes * entries * width * kFloat,
            .gathered = passes * entries * width * kFloat,
            .calls = 2.0,
            .edge = edge});
  const double every = double(facts.fold_every(layer));
  list.add({.kind = Work::Kind::product,
            .stage = kFold,
            .flops = 2.0 * units * square * (1.0 / every + 1.0 / double(facts.gram_every(layer))),
            .bytes = 2.0 * units * width * kFloat / every,
            .calls = facts.on_gpu() ? 4.0 : 1.0 / every,
            .edge = edge});
}

void FactoredUpdate::tensors(TensorUses& uses) const {
  FactoredRoom& room = uses.tensors.room<FactoredRoom>(layer);
  const int edge = uses.facts.matrices(layer)[0];
  uses.updates_weights(edge);
  uses.adds_to_delta(uses.facts.edge(edge).source);
  uses.updates_flags();
  uses.updates(uses.tensors.units[layer]->bias.value, room.u, room.inverse, room.gram, room.mean,
               room.curvature, room.progress, room.h, room.projected, room.entry_sums);
  uses.writes(room.entry_delta, room.factor_delta, room.delta, room.unit_step, room.step_rows,
              room.coupling, room.own_coupling, room.covariance, room.before, room.after,
              room.solved_before, room.solved_after, room.change, room.gram_sums, room.sent,
              room.row_costs, room.verdicts);
}

}  // namespace norn::step
