// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/layers/room.h"

#include <vector>

/// Hidden layers of which a rank has all units, of its own runs of examples (ExamplePartition).
/// Activations and deltas stand where the examples are. Parameters stand whole on every rank; the
/// state of the update rule, and the update, are those of the rank that owns the unit.
namespace norn::step {

/// Bias and products of the own examples, run by run, so that no bit depends on who has which run;
/// then batch normalisation over the examples of all ranks, activation, dropout.
struct ExampleForward {
  static constexpr bool kMakesActivations = true;
  static constexpr const char* kName = "forward by example";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// The rows of all examples, for layers by unit.
struct GatherRows {
  static constexpr const char* kName = "gather rows";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// From what destinations say about the activations of the own examples to d cost / d
/// pre-activation: those by example have added their floats, those by unit sum in fixed point.
struct ExampleDelta {
  static constexpr bool kTakesDelta = true;
  static constexpr const char* kName = "delta by example";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// The delta goes down to the sources: as floats to those by example, as one partial sum to those
/// by unit.
struct SendByExample {
  static constexpr const char* kName = "deltas by example";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
};

/// A term of the weights' gradient from each run goes to the owners of the units, who add up the
/// terms in the order of the runs in float64 and update; then every rank gets the new values.
/// Gradients of shared weights are added up for UpdateShared.
struct UpdateByOwners {
  static constexpr const char* kName = "update by owners";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// Updates the rows of an edge's weights that this rank owns, and gets those of the others.
///   gradient [own rows x inputs]
void update_by_owner(State& state, int edge, MatrixView<const float> gradient);

struct ExampleRoom : WithoutOutputs {
  using Ops = OpTypes<ExampleForward, GatherRows, ExampleDelta, SendByExample, UpdateByOwners>;
  static bool is_of(const StepFacts& facts, int layer) {
    return facts.by_example(layer) && facts.is_hidden(layer) &&
           rules_of(facts.layer(layer).type).edges == EdgeKind::matrix;
  }
  ExampleRoom(const StepFacts& facts, int layer);

  HeldMatrix<float> terms;      ///< [own runs x weights of the largest edge]
  HeldBuffer<float> gradient;   ///< of the own units of that edge
  HeldMatrix<double> run_sums;  ///< [runs x 2 units], sums over the rows of a run
  HeldBuffer<FixedSum> sums;    ///< [2 units], over all runs
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    all(terms, gradient, run_sums, sums);
  }

  static void forward(const StepFacts& facts, int layer, bool learns, OpList& ops);
  static void backward(const StepFacts& facts, int layer, OpList& ops);
};

}  // namespace norn::step
