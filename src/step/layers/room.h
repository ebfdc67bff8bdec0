// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/facts.h"

/// What a kind of layer brings to a step: a struct as those of this folder, listed in rooms.h.
///
///     using Ops = OpTypes<...>;                    // its own, if it has any
///     static bool is_of(const LayerDescriptor&);         // which layers are of the kind
///     Room(const StepFacts&, int layer);                 // declares its arrays
///     void for_each_tensor(visit);                       // lists them
///     static void forward(facts, layer, learns, ops);    // adds its ops to a step's
///     static void backward(facts, layer, ops);           // those of a step that learns
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

}  // namespace norn::step
