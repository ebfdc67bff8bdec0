// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/layers/room.h"

/// Hidden layers without weights: windows and channels of a place (Max, Average, LRN), the largest
/// of several sources (Maxout), and how alike two sources are (DotProduct, Cosine).
namespace norn::step {

/// What the layer makes of its sources: of the own examples, or of the own units of all examples.
struct PoolForward {
  static constexpr bool kMakesPreActivations = true;
  static constexpr bool kMakesActivations = true;
  static constexpr const char* kName = "pooling";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
};

/// The delta goes down to the sources: as floats from one layer by example to another, else as
/// partial sums.
struct PoolBackward {
  static constexpr const char* kName = "deltas of pooling";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
};

struct PoolingRoom : WithoutOutputs {
  using Ops = OpTypes<PoolForward, PoolBackward>;
  static bool is_of(const StepFacts& facts, int layer) {
    return facts.is_hidden(layer) && facts.layer(layer).type == LayerType::pooling;
  }
  PoolingRoom(const StepFacts& facts, int layer);

  /// [own pairs x 3 rows], DotProduct and Cosine: of each row a . b, |a|^2 and |b|^2.
  HeldMatrix<FixedSum> pair_sums;
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    visit(pair_sums);
  }

  static void forward(const StepFacts& facts, int layer, bool learns, OpList& ops);
  static void backward(const StepFacts& facts, int layer, OpList& ops);
};

}  // namespace norn::step
