// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/step/ops/op.h"

/// Where a step begins and ends.
namespace norn::step {

/// Of training: nothing is summed yet.
struct BeginStep {
  static constexpr const char* kName = "begin step";
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

/// Of a pass that learns nothing. `costs`: it finds the cost of its targets.
struct BeginForward {
  static constexpr const char* kName = "begin forward";
  bool costs = false;
  void run(State& state) const;
  void tensors(TensorUses& uses) const;
};

/// Before the first output layer of a step.
struct BeginOutputs {
  static constexpr const char* kName = "begin outputs";
  void run(State& state) const;
};

struct EndStep {
  static constexpr const char* kName = "end step";
  void run(State& state) const;
  void traffic(const StepFacts& facts, TrafficList& list) const;
};

}  // namespace norn::step
