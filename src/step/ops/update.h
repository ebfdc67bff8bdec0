// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// Updates at the end of a step.
namespace norn::step {

/// A layer that uses shared weights has filled its own part of their gradient: complete it and add
/// it up.
struct AddSharedGradients {
  static constexpr const char* kName = "shared gradients";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// All layers' at once: nothing reads a bias between its gradient and the end of the step, and
/// hidden layers keep their deltas until then.
struct UpdateBiases {
  static constexpr const char* kName = "update biases";
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
};

/// Shared matrices, with the mean over their users. Filters are updated by the owners of their
/// rows.
struct UpdateShared {
  static constexpr const char* kName = "update shared weights";
  int edge = 0;  ///< that owns them
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// WeightNorm of a layer with several sources: a unit's weights from all of them have one norm,
/// which is known when all have been updated. Weights from one source are bounded where they are
/// updated, while they are in a cache.
struct BoundWeights {
  static constexpr const char* kName = "bound weights";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

/// Formats of the next step's sums follow from the largest values of all ranks.
struct BeginMaxima {
  static constexpr const char* kName = "begin maxima";
  void run(State& state) const;
  void tensors(TensorUses& uses) const { uses.updates(uses.tensors.maxima); }
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

struct FinishMaxima {
  static constexpr const char* kName = "finish maxima";
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

}  // namespace norn::step
