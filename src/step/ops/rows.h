// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// Weights of sparse sources, of which a step touches some rows.
namespace norn::step {

/// The products of this batch must see the rows that it reads as the dense rule would have left
/// them.
struct CatchUpRows {
  static constexpr const char* kName = "catch up rows";
  int edge = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const { uses.updates_weights(edge); }
  void work(const StepFacts& facts, WorkList& list) const;
};

/// Weights of the sparse sources of a hidden layer: all own units at once, so that a touched row is
/// gone through once.
struct UpdateRows {
  static constexpr const char* kName = "update rows";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
};

/// After all blocks of a layer: its sparse rows have been through this step.
struct FinishRows {
  static constexpr const char* kName = "finish rows";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

}  // namespace norn::step
