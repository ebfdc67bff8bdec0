// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// What the delta of a block does to the sources of its layer and to the weights from them.
namespace norn::step {

/// Of one connection that is not by source.
struct EdgeBackward {
  enum class Update {
    none,          ///< rows of a hidden layer's sparse sources are updated all at once: UpdateRows
    at_once,       ///< of weights that only this connection uses
    may_wait,      ///< the same, until ranks exchange deltas: LateUpdates
    into_gradient  ///< of shared weights: AddSharedGradients, UpdateShared
  };
  int edge = 0;
  std::size_t connection = 0;  ///< of its layer
  bool sends = false;          ///< the source wants a delta
  Update update = Update::none;
};

/// The stages of what is done with the weights into a layer.
struct EdgeStages {
  const char* forward;
  const char* input_delta;
  const char* update;
};
const EdgeStages& stages_of(const StepFacts& facts, int layer);

/// The blocks of a hidden layer, whose delta stands. Lanes share them; a GPU takes them all at
/// once.
struct HiddenBlocks {
  static constexpr const char* kName = "hidden blocks";
  int layer = 0;
  std::vector<EdgeBackward> edges;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
  void work(const StepFacts& facts, WorkList& list) const;
};

/// Updates that waited, in the order in which they were due.
struct LateUpdates {
  static constexpr const char* kName = "late updates";
  std::vector<int> edges;  ///< those that may wait
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

/// The delta of one block, or of several one after the other, goes down to the sources, then into
/// the weights: in that order, because the sources must see the weights as they were. `stays`: the
/// delta stays where it is until LateUpdates.
void run_backward(State& state, int layer, std::span<const EdgeBackward> edges, Range units,
                  const DenseOperand& delta, int lane, bool stays);
void list_backward(std::span<const EdgeBackward> edges, TensorUses& uses);
void count_backward(int layer, std::span<const EdgeBackward> edges, const StepFacts& facts,
                    WorkList& list);

}  // namespace norn::step
