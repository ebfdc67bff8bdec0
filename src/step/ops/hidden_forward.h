// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// Hidden layers forward.
namespace norn::step {

/// Bias and what all edges bring; then batch normalisation, activation, dropout: of all
/// own units at once. Sums over sparse sources do not depend on blocks; products with dense sources
/// are told where the blocks are, so that their bits do not depend on how many of them a rank owns.
struct HiddenForward {
  static constexpr bool kMakesPreActivations = true;
  static constexpr bool kMakesActivations = true;
  static constexpr const char* kName = "hidden forward";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
};

/// Every rank's activations of a hidden layer, as products read them; of SoftMax, its
/// pre-activations.
struct GatherActivations {
  static constexpr bool kMakesActivations = true;
  static constexpr const char* kName = "gather activations";
  int layer = 0;
  void run(State& state) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
  void tensors(TensorUses& uses) const;
};

/// Of whole rows.
struct HiddenSoftMax {
  static constexpr bool kMakesActivations = true;
  static constexpr const char* kName = "hidden softmax";
  int layer = 0;
  void run(State& state) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void tensors(TensorUses& uses) const { uses.updates(uses.tensors.units[layer]->activations); }
};

/// Activations cast to bf16, or transposed for gradients, where products read that.
struct CopyActivations {
  static constexpr const char* kName = "copy activations";
  int layer = 0;
  void run(State& state) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void tensors(TensorUses& uses) const;
};

/// All activations of a layer whose destinations did not need them, for whoever asks for them.
struct GatherRest {
  static constexpr const char* kName = "gather the rest";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const { uses.updates(uses.tensors.units[layer]->activations); }
};

}  // namespace norn::step
