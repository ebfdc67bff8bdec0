// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/factored.h"
#include "norn/base/error.h"
#include "src/step/layers/room.h"
#include "src/tensor/tensor.h"

#include <array>

/// Output layers in training whose weights are a product, W = V U: a step of squared error costs no
/// more than the stored targets do. docs/user/numerics.md has the formulas. V stands where the
/// weights of the layer's edge do, its last column where the biases do. U and what follows from it
/// are the same on all ranks.
namespace norn::step {

/// What the batch's stored targets say: r and cost of each, and sums over the units of all ranks.
struct FactoredEntries {
  static constexpr const char* kName = "stored targets";
  int layer = 0;
  bool learns = true;  ///< else costs alone
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// The cost, the source's delta, and the update of V and U. Every few steps U goes into V.
struct FactoredUpdate {
  static constexpr const char* kName = "factored update";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// The cost of targets that are not learnt. `visits`: the outputs are shown, too.
struct FactoredCost {
  static constexpr const char* kName = "factored cost";
  int layer = 0;
  bool visits = false;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

/// The outputs, block by block.
struct FactoredValues {
  static constexpr const char* kName = "factored values";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

/// Whether what a step changes V' V by is planned from FactoredKernels::sum_pairs, without reading
/// rows of V once more: narrow batches on CPUs.
bool plans_pairs(const StepFacts& facts, int layer);

struct FactoredRoom {
  using Ops = OpTypes<FactoredEntries, FactoredUpdate, FactoredCost, FactoredValues>;
  static bool is_of(const StepFacts& facts, int layer) { return facts.is_factored(layer); }
  FactoredRoom(const StepFacts& facts, int layer);

  // What a step leaves behind. D: units of the source, and one more for the bias.
  HeldMatrix<double> u;          ///< [D x D]
  HeldMatrix<double> inverse;    ///< [D x D] of U
  HeldMatrix<double> gram;       ///< [D x D] V' V
  HeldMatrix<double> mean;       ///< [D x D] mean of H' H / B, Newton
  HeldMatrix<double> curvature;  ///< [D x D] (mean + damping)^-1, Newton of narrow batches
  HeldBuffer<double> progress;   ///< [2] whether V and U have begun, and steps since then
  Tensor rows, last;             ///< V as files hold it: it has the memory of weights and bias

  // Of a step. H: the source's activations and a column of ones.
  HeldMatrix<double> h;              ///< [B x D] H, then sqrt(weight) H
  HeldMatrix<double> projected;      ///< [B x D] H U', then the same
  HeldMatrix<double> entry_delta;    ///< [B x D] R V, then R V of before and after the step
  HeldMatrix<double> factor_delta;   ///< [B x D] D V
  HeldMatrix<double> delta;          ///< [B x D] d cost / d H
  HeldMatrix<double> unit_step;      ///< [B x D] H Q by the inverse of the new U
  HeldMatrix<double> step_rows;      ///< [B x D] H Q, of narrow batches
  HeldMatrix<double> coupling;       ///< [B x B] 1 - step H Q H', of narrow batches
  HeldMatrix<double> own_coupling;   ///< [B x B] 1 + that of the batch's own curvature, Newton
  HeldMatrix<double> covariance;     ///< [D x D] H' H, of wide batches
  HeldMatrix<double> before, after;  ///< [D x D] what stands for Q^-1 and Q^-1 (1 - E) there
  HeldMatrix<double> solved_before;  ///< [D x D] Q H' H
  HeldMatrix<double> solved_after;   ///< [D x D] (1 - E)^-1 by the inverse of U, times Q
  HeldMatrix<double> change;         ///< [D x D] of U, of V' V
  HeldMatrix<FixedSum> entry_sums;   ///< [B x D] sums over stored targets of r v
  HeldMatrix<FixedSum> gram_sums;    ///< [D x D]
  HeldMatrix<float> sent;            ///< [B x D - 1] delta of the source
  HeldBuffer<double> row_costs;      ///< [B] of all units
  HeldBuffer<double> verdicts;       ///< [3] least pivots, and whether a fold is due
  std::array<TargetLists, 2> lists;  ///< in turn: one is made while the other is read
  std::size_t turn = 0;
  Buffer<double> entry_r;      ///< [entries]
  Buffer<double> entry_costs;  ///< [entries]

  // `progress` as the host knows it, while nobody else writes it.
  bool knows_progress = false;
  bool has_begun = false;
  Index steps = 0;

  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    all(u, inverse, gram, mean, curvature, progress, h, projected, entry_delta, factor_delta, delta,
        unit_step, step_rows, coupling, own_coupling, covariance, before, after, solved_before,
        solved_after, change, entry_sums, gram_sums, sent, row_costs, verdicts);
  }

  static void forward(const StepFacts&, int, bool, OpList&) {}
  static void backward(const StepFacts& facts, int layer, OpList& ops);
  static void outputs(const StepFacts& facts, int layer, OpList& ops);
  static void cost(const StepFacts& facts, int layer, bool visits, OpList& ops);
  static bool is_searched(const StepFacts&, int) { return false; }
  // The device that finds units without their scores reads weights, which are not there.
  static void search(const StepFacts&, int, OpList&) {}
  static ScoredUnits scored_units(const State&, int, Range, Index) { return {}; }
  static void score(State&, int, MatrixView<float>) {}

  Index width() const { return u.tensor().rows; }
  TargetLists& targets() { return lists[turn]; }
};

/// The columns of V U, biases the last one, of this rank's units.
///   w [own units x columns] in main memory
void factored_columns(State& state, int layer, Range columns, MatrixView<float> w);
/// Weights or biases have been given: U begins anew before it is read again.
void restart_factors(State& state, int layer);
/// What stands in the device's memory may have been written since the last step.
void forget_progress(State& state);
/// Before a pass, outside of what a device takes as one piece: U, its inverse and V' V where
/// weights are new; and weights of examples are looked at.
void prepare_factors(State& state, int layer);
/// The entries of a batch, within WorkQueue::prepare.
void list_targets(State& state, int layer);
/// What is thrown of a step that was too long: by this share it would change what is left.
DivergenceError too_long_step(const State& state, int layer, const StepPosition& position,
                              double share);

// What the ops consist of.
/// V of these units, counted from the first one of the layer.
FactorView<float> factors(State& state, int layer, Range units);
/// V' V in fixed point by blocks.
void sum_gram(State& state, int layer);
/// Those of all ranks.
void reduce_sums(State& state, MatrixView<FixedSum> sums);
/// H and H U' of the batch.
void project_source(State& state, int layer);
EntryRule entry_rule(State& state, int layer);
VectorView<const float> example_weights(State& state, int layer);
/// The cost of each own block, from row_costs. `all_units`: those count, too, which are the first
/// block's.
void add_up_costs(State& state, int layer, bool all_units);

}  // namespace norn::step
