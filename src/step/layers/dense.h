// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/layers/room.h"
#include "src/step/target_runs.h"

#include <optional>

/// The kinds of layers of fully connected networks.
namespace norn::step {

/// Their values are a data set's, which src/step/input_layer.h prepares.
struct InputRoom : WithoutOutputs {
  using Ops = OpTypes<>;
  static bool is_of(const StepFacts& facts, int layer) { return facts.is_input(layer); }
  InputRoom(const StepFacts& facts, int layer);

  HeldBuffer<float> feature_weights;  ///< with InputWeighting
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    visit(feature_weights);
  }

  static void forward(const StepFacts& facts, int layer, bool learns, OpList& ops);
  static void backward(const StepFacts&, int, OpList&) {}
};

/// Bias and whatever edges lead to them, added up. They hold what all layers with units hold.
struct HiddenRoom : WithoutOutputs {
  using Ops = OpTypes<>;
  static bool is_of(const StepFacts& facts, int layer) {
    return facts.is_hidden(layer) && rules_of(facts.layer(layer).type).adds_up;
  }
  HiddenRoom(const StepFacts&, int) {}

  template <typename Visit>
  void for_each_tensor(const Visit&) {}

  static void forward(const StepFacts& facts, int layer, bool learns, OpList& ops);
  static void backward(const StepFacts& facts, int layer, OpList& ops);
};

/// One that is declared here and has its memory elsewhere.
struct OutsideTensor {
  Tensor declared;
  const Tensor& tensor() const { return declared; }
  void allocate(Memory&) {}
  std::byte* address() { return nullptr; }
};

/// Streamed block by block: forward and backward of a block are one op.
struct OutputRoom {
  using Ops = OpTypes<>;
  static bool is_of(const StepFacts& facts, int layer) {
    return facts.is_output(layer) && rules_of(facts.layer(layer).type).adds_up &&
           !facts.is_factored(layer);
  }
  OutputRoom(const StepFacts& facts, int layer);

  /// Pre-activations of all own blocks, block after block; empty: recomputed.
  HeldBuffer<float> kept_z;
  HeldMatrix<float> block_maximum;        ///< [own blocks x B], SoftMax
  HeldMatrix<float> block_sum;            ///< [own blocks x B]
  HeldMatrix<float> rank_maximum;         ///< [ranks x B], with several ranks
  HeldBuffer<float> maximum;              ///< [B]
  HeldBuffer<std::int64_t> total;         ///< [B]
  HeldBuffer<std::int64_t> coupling;      ///< [B]
  std::optional<TargetRuns> target_runs;  ///< where blocks may compute their loss in their product
  OutsideTensor target_places;            ///< what those take

  SoftMaxRows rows(Index examples) const {
    return {maximum.view().range(0, examples), total.view().range(0, examples),
            coupling.view().range(0, examples)};
  }
  template <typename Visit>
  void for_each_tensor(const Visit& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    all(target_places, block_maximum, block_sum, rank_maximum, maximum, total, coupling, kept_z);
  }

  static void forward(const StepFacts&, int, bool, OpList&) {}
  static void backward(const StepFacts& facts, int layer, OpList& ops);
  static void outputs(const StepFacts& facts, int layer, OpList& ops);
  static void cost(const StepFacts& facts, int layer, bool visits, OpList& ops);
  static bool is_searched(const StepFacts& facts, int layer);
  static void search(const StepFacts& facts, int layer, OpList& ops);
  static ScoredUnits scored_units(const State& state, int layer, Range units, Index examples);
  static void score(State& state, int layer, MatrixView<float> found);
};

}  // namespace norn::step
