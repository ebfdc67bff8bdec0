// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// Edges whose weights are shared out by source units: forward, the ranks' parts of a narrow
/// layer's pre-activations are added up; backward, its delta is gathered, and what the source hears
/// of it is summed where the source's units are.
namespace norn::step {

/// Every block of every source, on whatever rank, gives one part of all of the layer's
/// pre-activations. Ranks without units of the layer have parts too.
struct SumSources {
  static constexpr const char* kName = "sum over sources";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// The layer's delta, gathered, goes to the sources' units of this rank, then into their weights:
/// in that order, because the sources must see the weights as they were.
struct SendBySource {
  static constexpr const char* kName = "deltas by source";
  int layer = 0;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

/// z += what SumSources found for these units of this rank.
void add_source_sum(State& state, int layer, Range units, MatrixView<float> z);
/// Keeps the delta of these units of this rank for SendBySource.
void keep_delta_by_source(State& state, int layer, Range units, MatrixView<const float> delta);
/// Adds up the accumulators of a sum over the ranks.
void reduce_accumulators(State& state, DeltaSum& sum, std::span<const Range> shares);
/// The same for the owners of rows.
void reduce_accumulator_rows(State& state, DeltaSum& sum, std::span<const Range> shares);

}  // namespace norn::step
