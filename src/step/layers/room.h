// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/recommend.h"
#include "norn/base/error.h"
#include "src/step/facts.h"

/// What a kind of layer brings to a step: a struct as those of this folder, listed in rooms.h.
///
///     using Ops = OpTypes<...>;                       // its own, if it has any
///     static bool is_of(const StepFacts&, int layer);  // which layers are of the kind
///     Room(const StepFacts&, int layer);              // declares its arrays
///     void for_each_tensor(visit);                    // lists them
///     static void forward(facts, layer, learns, ops); // adds its ops to a step's
///     static void backward(facts, layer, ops);        // those of a step that learns
///
/// Of output layers; kinds of other layers have those of WithoutOutputs:
///
///     static void outputs(facts, layer, ops);       // shows what they give to Request::visit
///     static void cost(facts, layer, visits, ops);  // of targets that are not learnt, beside that
///     static bool is_searched(facts, layer);        // its best units can be found
///     static void search(facts, layer, ops);        // after these ops
///     static ScoredUnits scored_units(state, layer, units, examples);  // by the order of these
///     static void score(state, layer, found);       // in whose place their scores are put
///
/// What layers with units hold in any case, bias, activations and deltas, is UnitLayer's.
namespace norn::step {

/// The ops of a step so far: src/step/program.h.
struct OpList;
/// What the state of a step is to ops.
class State;
class TensorUses;
class TrafficList;
class WorkList;

template <typename... Ops>
struct OpTypes {};

/// Of layers whose values are nobody's outputs.
struct WithoutOutputs {
  static void outputs(const StepFacts&, int, OpList&) { refuse(); }
  static void cost(const StepFacts&, int, bool, OpList&) {}
  static bool is_searched(const StepFacts&, int) { return false; }
  static void search(const StepFacts&, int, OpList&) { refuse(); }
  static ScoredUnits scored_units(const State&, int, Range, Index) { refuse(); }
  static void score(State&, int, MatrixView<float>) { refuse(); }

 private:
  [[noreturn]] static void refuse() { throw ShapeError("step: the layer is no Output layer"); }
};

}  // namespace norn::step
