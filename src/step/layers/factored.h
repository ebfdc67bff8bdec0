// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/factored.h"
#include "src/step/layers/room.h"
#include "src/tensor/tensor.h"

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

struct FactoredRoom {
  using Ops = OpTypes<FactoredEntries, FactoredUpdate, FactoredCost, FactoredValues>;
  static bool is_of(const StepFacts& facts, int layer) { return facts.is_factored(layer); }
  FactoredRoom(const StepFacts& facts, int layer);

  // What a step leaves behind. D: units of the source, and one more for the bias.
  HeldMatrix<double> u;          ///< [D x D]
  HeldMatrix<double> inverse;    ///< [D x D] of U
  HeldMatrix<double> gram;       ///< [D x D] W' W
  HeldMatrix<double> mean;       ///< [D x D] mean of H' H / B, Newton
  HeldMatrix<double> curvature;  ///< [D x D] (mean + damping)^-1, Newton
  HeldBuffer<double> progress;   ///< [2] whether V and U have begun, and steps since then
  Tensor rows, last;             ///< V as files hold it: it has the memory of weights and bias

  // Of a step. H: the source's activations and a column of ones.
  HeldMatrix<double> h;               ///< [B x D] H, then sqrt(weight) H
  HeldMatrix<double> projected;       ///< [B x D] H U', then the same
  HeldMatrix<double> step_rows;       ///< [B x D] K = H Q
  HeldMatrix<double> delta;           ///< [B x D] d cost / d H
  HeldMatrix<double> entry_delta;     ///< [B x D] of it what stored targets say
  HeldMatrix<double> unit_step;       ///< [B x D] K by the inverse of the new U
  HeldMatrix<double> change;          ///< [B x D] A, where W' W changes by A' K + K' A
  HeldMatrix<double> coupling;        ///< [B x B] 1 - step H Q H', then its factor
  HeldMatrix<double> products;        ///< [B x B] of the examples' deltas
  HeldMatrix<FixedSum> entry_sums;    ///< [B x D] sums over stored targets of r v
  HeldMatrix<FixedSum> overlap_sums;  ///< [B x B] and of r r'
  HeldMatrix<FixedSum> gram_sums;     ///< [D x D]
  TargetLists lists;
  Buffer<double> entry_r;      ///< [entries]
  Buffer<double> entry_costs;  ///< [entries]

  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    all(u, inverse, gram, mean, curvature, progress, h, projected, step_rows, delta, entry_delta,
        unit_step, change, coupling, products, entry_sums, overlap_sums, gram_sums);
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
};

/// The columns of V U, biases the last one, of this rank's units.   w [own units x columns]
void factored_columns(State& state, int layer, Range columns, MatrixView<float> w);
/// Weights or biases have been given: U begins anew before it is read again.
void restart_factors(State& state, int layer);

// What the ops consist of.
/// V of these units, counted from the first one of the layer.
FactorView<float> factors(State& state, int layer, Range units);
/// U, its inverse and W' W where weights are new.
void begin_factors(State& state, int layer);
void make_identity(MatrixView<double> m);
/// W' W from V, in fixed point by blocks.
void sum_gram(State& state, int layer);
/// H and H U' of the batch.
void project_source(State& state, int layer);
EntryRule entry_rule(State& state, int layer);
/// The costs of the own blocks. The part of all units is that of the rank with the first block.
///   all_units  sum over examples of weight h' W' W h
void sum_costs(State& state, int layer, double all_units);

}  // namespace norn::step
