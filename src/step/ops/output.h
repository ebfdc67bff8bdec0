// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/blocks.h"
#include "src/step/ops/op.h"

/// Output layers, streamed block by block: pre-activation, cost, delta, the sources' delta,
/// weights. The batch x width matrix never exists as a whole, except where it is small enough to be
/// kept between the passes of SoftMax.
namespace norn::step {

/// DeltaNorm needs the norm of whole rows before the first block is used: one pass for the squares
/// alone.
struct DeltaNorms {
  static constexpr bool kMakesPreActivations = true;
  static constexpr const char* kName = "norms of deltas";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// All of a training step that goes through the blocks of an output layer.
struct OutputBlocks {
  static constexpr bool kMakesPreActivations = true;
  static constexpr const char* kName = "output blocks";
  int layer = 0;
  bool fuses = false;  ///< product, cost and delta may be one kernel
  std::vector<EdgeBackward> edges;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;

 private:
  Index run_fused(State& state, const TargetView& target) const;
};

/// The cost of targets that are not learnt. `visits`: the outputs are shown, too.
struct CostBlocks {
  static constexpr bool kMakesPreActivations = true;
  static constexpr const char* kName = "cost blocks";
  int layer = 0;
  bool visits = false;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

/// The outputs of a layer, block by block.
struct OutputValues {
  static constexpr bool kMakesPreActivations = true;
  static constexpr const char* kName = "output values";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

// What they consist of.
/// `stage`: of products with dense sources.
void pre_activation(State& state, int layer, Range units, MatrixView<float> z, const char* stage);
/// Where a block's pre-activations go: their kept place, or the lane's workspace.
MatrixView<float> block_z(State& state, int layer, Range units, int lane);
/// Delta of a block in place of its pre-activations, and its bf16 copy where products read that.
DenseOperand block_delta(State& state, int layer, const TargetView& target, Range units,
                         MatrixView<float> z, double* cost, int lane);
TargetView target_view(State& state, int layer);
/// A block of several blocks on its way from the activations: without what it becomes.
OutputBlock output_block(State& state, int layer, const TargetView& target, Range units);
/// The layer's flag of sums that are out of range.
std::int64_t* out_of_range(State& state, int layer);
/// An output layer's values in place of its pre-activations.
void activate_block(State& state, int layer, MatrixView<float> z);

/// body(number among the own blocks, units, lane)
template <typename Body>
void for_own_blocks(State& state, int layer, const Body& body) {
  const Range blocks = state.facts.own_blocks(layer);
  state.compute().executor.for_each(blocks.count(), [&](Index b, int lane) {
    body(b, state.facts.partition(layer).units(blocks.begin + b), lane);
  });
}

}  // namespace norn::step
