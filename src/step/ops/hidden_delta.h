// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// What all destinations of a hidden layer, on all ranks, say about its activations.
namespace norn::step {

/// Ranks begin to exchange their parts of it: few partial sums as they are; more are added up to
/// accumulators, which are reduced.
struct BeginReduce {
  static constexpr const char* kName = "begin reduce";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const { uses.adds_to_delta(layer); }
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

struct FinishReduce {
  static constexpr const char* kName = "finish reduce";
  int layer = 0;
  void run(State& state) const;
};

/// From d cost / d activation to d cost / d pre-activation of the own units, and what edges from
/// unit to unit make of it.
struct HiddenDelta {
  static constexpr bool kTakesDelta = true;
  static constexpr const char* kName = "hidden delta";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// Sums of squares of a row over all blocks and ranks, in fixed point: the lanes' sums, combined in
/// the first lane's place.
void reduce_row_squares(State& state);

}  // namespace norn::step
