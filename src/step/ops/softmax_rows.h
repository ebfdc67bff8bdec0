// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// What the blocks of a SoftMax layer must know of each other.
namespace norn::step {

/// Maximum and total of every row, and, for targets, the coupling of their deltas.
struct ReduceSoftMaxRows {
  static constexpr bool kMakesPreActivations = true;
  static constexpr const char* kName = "softmax rows";
  int layer = 0;
  bool has_targets = false;
  bool fuses = false;  ///< blocks compute their loss in their product next
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;

 private:
  void find_statistics(State& state, MatrixView<float> maxima, MatrixView<float> sums) const;
  void find_coupling(State& state) const;
};

}  // namespace norn::step
